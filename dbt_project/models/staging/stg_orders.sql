{{ config(event_time='order_date') }}

with source as (

    select * from {{ source('silver', 'orders') }}

),

renamed as (

    select
        -- ids
        order_id,
        customer_id,
        store_id,
        campaign_id,

        -- dimensions
        status,
        channel,
        currency,
        customer_email as customer_email_hash,
        note,

        -- numerics
        total_cents,
        discount_cents,

        -- timestamps
        ordered_at,
        updated_at,
        _event_date as order_date
    from source
    where event_type != 'deleted'

)

select * from renamed
