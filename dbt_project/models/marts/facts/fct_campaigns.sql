{{ config(partition_by='order_date', event_time='order_date') }}

with orders as (

    select * from {{ ref('int_orders_enriched') }}
    where
        {{ in_range('order_date') }}
        and campaign_id is not null

),

facts as (

    select
        -- ids
        campaign_id,

        -- numerics
        count(*) as orders,
        count_if(is_revenue) as revenue_orders,
        count(distinct customer_id) as customers,
        sum(discount_cents) as discount_cents,
        coalesce(sum(net_amount_cents) filter (where is_revenue), 0) as revenue_cents,

        -- timestamps
        order_date
    from orders
    group by campaign_id, order_date

)

select * from facts
