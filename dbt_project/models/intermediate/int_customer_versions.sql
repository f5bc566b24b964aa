{{ config(materialized='view') }}

with customers as (

    select * from {{ ref('stg_customers') }}

),

numbered as (

    select
        *,
        row_number() over (partition by customer_id order by valid_from) as version
    from customers

),

keyed as (

    select
        -- ids
        {{ surrogate_key(['customer_id', 'valid_from']) }} as customer_key,
        customer_id,

        -- dimensions
        customer_name,
        email_hash,
        segment,
        country,
        city,
        is_active,
        is_deleted,
        is_current,

        -- numerics
        version,

        -- timestamps
        registered_at,
        valid_from,
        valid_to,
        -- An order may be older than the first thing we heard of its customer: the first version reaches back.
        case when version = 1 then timestamp '1900-01-01 00:00:00' else valid_from end as applies_from,
        coalesce(valid_to, timestamp '9999-12-31 00:00:00') as applies_to
    from numbered

)

select * from keyed
