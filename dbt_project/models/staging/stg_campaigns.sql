with source as (

    select * from {{ source('silver', 'campaigns') }}

),

renamed as (

    select
        -- ids
        campaign_id,

        -- dimensions
        campaign_name,
        channel,

        -- numerics
        budget_cents,

        -- timestamps
        started_on,
        ended_on
    from source

)

select * from renamed
