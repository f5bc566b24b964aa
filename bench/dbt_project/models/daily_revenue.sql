{{ config(materialized='incremental', partition_by='order_date', event_time='order_date') }}

with orders as (

    select
        store_id,
        total_cents,
        discount_cents,
        _event_date as order_date
    from {{ source('silver', 'orders') }}
    where event_type <> 'deleted' and {{ in_range('_event_date') }}

)

select
    store_id,
    count(*) as orders,
    sum(total_cents) as gross_cents,
    sum(discount_cents) as discount_cents,
    sum(total_cents - discount_cents) as net_cents,
    order_date
from orders
group by order_date, store_id
