{{ config(materialized='incremental', incremental_strategy='replace_changed') }}

with stores as (

    select
        -- ids
        store_id,

        -- dimensions
        store_name,
        region,
        country,
        city,

        -- numerics
        square_meters,

        -- timestamps
        opened_on
    from {{ ref('stg_stores') }}

)

select * from stores
