{{ config(partition_by='session_date', event_time='session_date') }}

with sessions as (

    select * from {{ ref('fct_web_sessions') }}
    where {{ in_range('session_date') }}

),

report as (

    select
        -- dimensions
        device,

        -- numerics
        count(*) as sessions,
        count_if(searches > 0) as sessions_with_search,
        count_if(cart_additions > 0) as sessions_with_cart,
        count_if(checkouts > 0) as sessions_with_checkout,
        count_if(purchases > 0) as sessions_with_purchase,
        round(count_if(cart_additions > 0) / count(*), 4) as cart_rate,
        round(count_if(purchases > 0) / count(*), 4) as conversion_rate,

        -- timestamps
        session_date
    from sessions
    group by device, session_date

)

select * from report
