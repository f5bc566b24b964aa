{{ config(materialized='incremental', partition_by='flight_date', event_time='flight_date') }}

with flights as (

    select
        carrier,
        dep_time,
        arr_delay,
        _event_date as flight_date
    from {{ source('silver', 'flights') }}
    where {{ in_range('_event_date') }}

),

airlines as (

    select
        carrier,
        name
    from {{ source('silver', 'airlines') }}

)

select
    flights.carrier,
    airlines.name as airline,
    count(*) as flights,
    count_if(flights.dep_time is null) as cancelled,
    count_if(flights.arr_delay > 15) as late,
    avg(flights.arr_delay) as mean_arrival_delay,
    flights.flight_date
from flights
left join airlines on flights.carrier = airlines.carrier
group by flights.flight_date, flights.carrier, airlines.name
