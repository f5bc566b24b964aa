{{ config(partition_by='order_date', event_time='order_date') }}

with orders as (

    select * from {{ ref('int_orders_enriched') }}
    where {{ in_range('order_date') }}

),

items as (

    select
        order_id,
        order_date,
        count(*) as item_count,
        sum(quantity) as item_quantity,
        sum(quantity * unit_price_cents) as items_cents
    from {{ ref('stg_order_items') }}
    where {{ in_range('order_date') }}
    group by order_id, order_date

),

facts as (

    select
        -- ids
        orders.order_id,
        orders.customer_key,
        orders.customer_id,
        orders.store_id,
        orders.campaign_id,

        -- dimensions
        orders.status,
        orders.channel,
        orders.currency,
        orders.customer_segment,
        orders.is_revenue,

        -- numerics
        coalesce(items.item_count, 0) as item_count,
        coalesce(items.item_quantity, 0) as item_quantity,
        coalesce(items.items_cents, 0) as items_cents,
        orders.total_cents,
        orders.discount_cents,
        orders.net_amount_cents,

        -- timestamps
        orders.ordered_at,
        orders.updated_at,
        orders.order_date
    from orders
    left join items
        on
            orders.order_id = items.order_id
            and orders.order_date = items.order_date

)

select * from facts
