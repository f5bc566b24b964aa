{{ config(materialized='table') }}

with flights as (

    select
        origin,
        time_hour,
        dep_delay
    from {{ source('silver', 'flights') }}
    where dep_delay is not null

),

weather as (

    select
        origin,
        time_hour,
        cast(floor(wind_speed / 10) * 10 as int) as wind_from_mph
    from {{ source('silver', 'weather') }}
    where wind_speed is not null

)

select
    weather.wind_from_mph,
    count(*) as flights,
    avg(flights.dep_delay) as mean_departure_delay
from flights
inner join weather on flights.origin = weather.origin and flights.time_hour = weather.time_hour
group by weather.wind_from_mph
