{{ config(partition_by='payment_date', event_time='payment_date') }}

with payments as (

    select * from {{ ref('stg_payments') }}
    where {{ in_range('payment_date') }}

),

facts as (

    select
        -- ids
        payment_id,
        order_id,
        customer_id,

        -- dimensions
        payment_method,
        status,
        currency,
        country,

        -- numerics
        cast(amount * 100 as bigint) as amount_cents,
        case status
            when 'captured' then cast(amount * 100 as bigint)
            when 'refunded' then -cast(amount * 100 as bigint)
            else 0
        end as settled_cents,

        -- timestamps
        paid_at,
        payment_date
    from payments

)

select * from facts
