{{ config(partition_by='session_date', event_time='session_date') }}

with events as (

    select * from {{ ref('stg_web_events') }}
    where {{ in_range('event_date') }}

),

sessions as (

    select
        session_id,
        event_date as session_date,
        max(customer_id) as customer_id,
        min_by(device, struct(occurred_at, web_event_id)) as device,
        min_by(country, struct(occurred_at, web_event_id)) as country,
        count(*) as event_count,
        count_if(event_name = 'page_view') as page_views,
        count_if(event_name = 'search') as searches,
        count_if(event_name = 'add_to_cart') as cart_additions,
        count_if(event_name = 'checkout') as checkouts,
        count_if(event_name = 'purchase') as purchases,
        min(occurred_at) as started_at,
        max(occurred_at) as ended_at
    from events
    group by session_id, event_date

),

facts as (

    select
        -- ids
        session_id,
        customer_id,

        -- dimensions
        device,
        country,
        case
            when purchases > 0 then 'purchase'
            when checkouts > 0 then 'checkout'
            when cart_additions > 0 then 'add_to_cart'
            when searches > 0 then 'search'
            else 'page_view'
        end as furthest_step,

        -- numerics
        event_count,
        page_views,
        searches,
        cart_additions,
        checkouts,
        purchases,
        unix_seconds(ended_at) - unix_seconds(started_at) as duration_seconds,

        -- timestamps
        started_at,
        ended_at,
        session_date
    from sessions

)

select * from facts
