{{ config(event_time='payment_date') }}

with source as (

    select * from {{ source('silver', 'payments') }}

),

renamed as (

    select
        -- ids
        payment_id,
        order_id,
        customer_id,

        -- dimensions
        method as payment_method,
        status,
        currency,
        country,
        card_holder as card_holder_masked,

        -- numerics
        amount,

        -- timestamps
        paid_at,
        updated_at,
        _event_date as payment_date
    from source
    where event_type != 'deleted'

)

select * from renamed
