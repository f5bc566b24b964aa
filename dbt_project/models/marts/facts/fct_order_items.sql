{{ config(partition_by='order_date', event_time='order_date') }}

with items as (

    select * from {{ ref('stg_order_items') }}
    where {{ in_range('order_date') }}

),

facts as (

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
        quantity * unit_price_cents as line_cents,

        -- timestamps
        ordered_at,
        order_date
    from items

)

select * from facts
