{{ config(materialized='table') }}

with campaigns as (

    select * from {{ ref('dim_campaigns') }}

),

results as (

    select
        campaign_id,
        sum(orders) as orders,
        sum(revenue_orders) as revenue_orders,
        sum(discount_cents) as discount_cents,
        sum(revenue_cents) as revenue_cents,
        min(order_date) as first_order_date,
        max(order_date) as last_order_date
    from {{ ref('fct_campaigns') }}
    group by campaign_id

),

report as (

    select
        -- ids
        campaigns.campaign_id,

        -- dimensions
        campaigns.campaign_name,
        campaigns.channel,
        case
            when results.campaign_id is null then 'no_orders'
            when results.revenue_cents >= campaigns.budget_cents then 'pays_back'
            else 'below_budget'
        end as outcome,

        -- numerics
        campaigns.budget_cents,
        coalesce(results.orders, 0) as orders,
        coalesce(results.revenue_orders, 0) as revenue_orders,
        coalesce(results.discount_cents, 0) as discount_cents,
        coalesce(results.revenue_cents, 0) as revenue_cents,
        round(coalesce(results.revenue_cents, 0) / nullif(campaigns.budget_cents, 0), 4) as return_on_budget,

        -- timestamps
        campaigns.started_on,
        campaigns.ended_on,
        results.first_order_date,
        results.last_order_date
    from campaigns
    left join results on campaigns.campaign_id = results.campaign_id

)

select * from report
