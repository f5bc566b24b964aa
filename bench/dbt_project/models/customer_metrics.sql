{{ config(materialized='table') }}

with orders as (

    select
        customer_id,
        total_cents - discount_cents as net_cents,
        _event_date as order_date
    from {{ source('silver', 'orders') }}
    where event_type <> 'deleted'

)

select
    customer_id,
    count(*) as orders,
    sum(net_cents) as net_cents,
    min(order_date) as first_order_date,
    max(order_date) as last_order_date
from orders
group by customer_id
