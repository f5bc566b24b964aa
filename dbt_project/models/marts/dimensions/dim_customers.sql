with versions as (

    select * from {{ ref('int_customer_versions') }}

),

metrics as (

    select * from {{ ref('int_customer_metrics') }}

),

customers as (

    select
        -- ids
        versions.customer_key,
        versions.customer_id,

        -- dimensions
        versions.customer_name,
        versions.email_hash,
        versions.segment,
        versions.country,
        versions.city,
        versions.is_active,
        versions.is_deleted,
        versions.is_current,
        case when versions.is_current then coalesce(metrics.loyalty, 'none') end as loyalty,

        -- numerics
        versions.version,
        case when versions.is_current then coalesce(metrics.lifetime_orders, 0) end as lifetime_orders,
        case when versions.is_current then coalesce(metrics.lifetime_revenue_cents, 0) end as lifetime_revenue_cents,

        -- timestamps
        versions.registered_at,
        metrics.first_order_date,
        metrics.last_order_date,
        versions.valid_from,
        versions.valid_to
    from versions
    left join metrics
        on
            versions.customer_id = metrics.customer_id
            and versions.is_current

)

select * from customers
