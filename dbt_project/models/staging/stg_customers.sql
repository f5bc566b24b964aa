with source as (

    select * from {{ source('silver', 'customers') }}

),

renamed as (

    select
        -- ids
        customer_id,

        -- dimensions
        full_name as customer_name,
        email as email_hash,
        segment,
        country,
        city,
        is_active,
        is_deleted,
        is_current,

        -- timestamps
        registered_at,
        updated_at,
        valid_from,
        valid_to
    from source

)

select * from renamed
