{{ config(materialized='incremental', incremental_strategy='replace_changed') }}

with campaigns as (

    select
        -- ids
        campaign_id,

        -- dimensions
        campaign_name,
        channel,

        -- numerics
        budget_cents,
        datediff(ended_on, started_on) + 1 as planned_days,

        -- timestamps
        started_on,
        ended_on
    from {{ ref('stg_campaigns') }}

)

select * from campaigns
