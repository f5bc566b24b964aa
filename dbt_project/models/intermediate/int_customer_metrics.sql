{{ config(materialized='table') }}

-- Needs all days, and reads five narrow columns of them: cheaper than keeping running totals right under late data.
with orders as (

    select
        customer_id,
        currency,
        is_revenue,
        net_amount_cents,
        order_date
    from {{ ref('int_orders_enriched') }}

),

as_of as (

    select max(order_date) as latest_order_date from orders

),

totals as (

    select
        customer_id,
        count(*) as lifetime_orders,
        count_if(is_revenue) as revenue_orders,
        coalesce(sum(net_amount_cents) filter (where is_revenue), 0) as lifetime_revenue_cents,
        count(distinct currency) as currency_count,
        min(order_date) as first_order_date,
        max(order_date) as last_order_date
    from orders
    group by customer_id

),

metrics as (

    select
        -- ids
        totals.customer_id,

        -- dimensions
        case
            when totals.revenue_orders = 0 then 'none'
            when datediff(as_of.latest_order_date, totals.last_order_date) > 90 then 'lapsed'
            when totals.revenue_orders = 1 then 'one_time'
            else 'repeat'
        end as loyalty,

        -- numerics
        totals.lifetime_orders,
        totals.revenue_orders,
        totals.lifetime_revenue_cents,
        totals.currency_count,
        datediff(as_of.latest_order_date, totals.last_order_date) as days_since_last_order,

        -- timestamps
        totals.first_order_date,
        totals.last_order_date
    from totals
    cross join as_of

)

select * from metrics
