with source as (

    select * from {{ source('silver', 'stores') }}

),

renamed as (

    select
        -- ids
        store_id,

        -- dimensions
        store_name,
        region,
        country,
        city,
        manager_email as manager_email_hash,

        -- numerics
        square_meters,

        -- timestamps
        opened_on
    from source

)

select * from renamed
