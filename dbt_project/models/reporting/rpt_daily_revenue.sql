{{ config(partition_by='order_date', event_time='order_date') }}

with orders as (

    select * from {{ ref('fct_orders') }}
    where {{ in_range('order_date') }}

),

stores as (

    select * from {{ ref('dim_stores') }}

),

daily as (

    select
        store_id,
        currency,
        order_date,
        count(*) as orders,
        count_if(is_revenue) as revenue_orders,
        count_if(status = 'cancelled') as cancelled_orders,
        count_if(status = 'returned') as returned_orders,
        count(distinct customer_id) as customers,
        coalesce(sum(total_cents) filter (where is_revenue), 0) as gross_cents,
        coalesce(sum(discount_cents) filter (where is_revenue), 0) as discount_cents,
        coalesce(sum(net_amount_cents) filter (where is_revenue), 0) as revenue_cents
    from orders
    group by store_id, currency, order_date

),

report as (

    select
        -- ids
        daily.store_id,

        -- dimensions
        stores.store_name,
        stores.region as store_region,
        daily.currency,

        -- numerics
        daily.orders,
        daily.revenue_orders,
        daily.cancelled_orders,
        daily.returned_orders,
        daily.customers,
        daily.gross_cents,
        daily.discount_cents,
        daily.revenue_cents,
        cast(round(daily.revenue_cents / nullif(daily.revenue_orders, 0)) as bigint) as average_order_cents,

        -- timestamps
        daily.order_date
    from daily
    left join stores on daily.store_id = stores.store_id

)

select * from report
