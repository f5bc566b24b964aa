{{ config(event_time='order_date') }}

with source as (

    select * from {{ source('silver', 'order_items') }}

),

renamed as (

    select
        -- ids
        order_item_id,
        order_id,
        product_id,

        -- dimensions
        product_name,
        category,

        -- numerics
        quantity,
        unit_price_cents,

        -- timestamps
        ordered_at,
        updated_at,
        _event_date as order_date
    from source

)

select * from renamed
