{{ config(partition_by='order_date', event_time='order_date') }}

with orders as (

    select * from {{ ref('stg_orders') }}
    where {{ in_range('order_date') }}

),

customers as (

    select * from {{ ref('int_customer_versions') }}

),

stores as (

    select * from {{ ref('stg_stores') }}

),

enriched as (

    select
        -- ids
        orders.order_id,
        orders.customer_id,
        customers.customer_key,
        orders.store_id,
        orders.campaign_id,

        -- dimensions
        orders.status,
        orders.channel,
        orders.currency,
        customers.customer_name,
        customers.segment as customer_segment,
        stores.store_name,
        stores.region as store_region,
        orders.status not in ('cancelled', 'returned') as is_revenue,

        -- numerics
        orders.total_cents,
        orders.discount_cents,
        orders.total_cents - orders.discount_cents as net_amount_cents,

        -- timestamps
        orders.ordered_at,
        orders.updated_at,
        orders.order_date
    from orders
    -- The customer as they were when they ordered, so that a rebuild years later gives the same row.
    left join customers
        on
            orders.customer_id = customers.customer_id
            and orders.ordered_at >= customers.applies_from
            and orders.ordered_at < customers.applies_to
    left join stores on orders.store_id = stores.store_id

)

select * from enriched
