{{ config(event_time='event_date') }}

with source as (

    select * from {{ source('silver', 'web_events') }}

),

renamed as (

    select
        -- ids
        web_event_id,
        session_id,
        customer_id,

        -- dimensions
        event_name,
        page_url,
        device,
        country,
        ip_address as ip_address_hash,

        -- timestamps
        occurred_at,
        _event_date as event_date
    from source
    where event_type != 'deleted'

)

select * from renamed
