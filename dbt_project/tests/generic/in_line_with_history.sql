{% test in_line_with_history(model, day, measures) %}
{#-
  Each day of the run looks like the four weeks before it in the same table. Expected is the median of those days, of
  the same weekday once there are three; odd is what lies more than five robust deviations away and is off by half. The
  limits are those of the volume check on Silver (quality/drift.py). Nor is a day odd that is like its weekday was, even
  once: every Saturday of the first weeks would be. A day with less than a week before it is not judged; one without
  any rows is odd if its weekday used to have some. Rows are the odd days.
-#}
{{ config(severity='warn', meta={'shows_rows': true, 'days_before': 28}) }}
with daily as (

    select
        {{ day }} as day,
        count(*) as row_count
        {%- for name, measure in measures.items() %},
        cast({{ measure }} as double) as measure_{{ loop.index }}
        {%- endfor %}
    from {{ model }}
    group by all

    {%- if stream_range() %}

    union all

    select
        explode(sequence(date '{{ stream_range()[0] }}', date '{{ stream_range()[1] }}')) as day,
        0 as row_count
        {%- for name in measures %},
        0 as measure_{{ loop.index }}
        {%- endfor %}
    {%- endif %}

),

figures as (

    select
        day,
        sum(row_count) > 0 as has_rows,
        stack(
            {{ measures | length }}
            {%- for name in measures %},
            '{{ name }}', coalesce(sum(measure_{{ loop.index }}), 0)
            {%- endfor %}
        ) as (measure, found)
    from daily
    group by day

),

with_past as (

    select
        *,
        collect_list(case when has_rows then struct(day as past_day, found as past) end) over (
            partition by measure
            order by day
            range between interval 28 days preceding and interval 1 day preceding
        ) as past_days
    from figures

),

pairs as (

    select
        day,
        measure,
        has_rows,
        found,
        inline(past_days)
    from with_past
    where {{ in_range('day') }} and size(past_days) >= 7

),

by_weekday as (

    select
        *,
        weekday(past_day) = weekday(day) as is_same_weekday,
        case
            when count(*) over (partition by day, measure, weekday(past_day)) >= 3
                then median(past) over (partition by day, measure, weekday(past_day))
            else median(past) over (partition by day, measure)
        end as past_expected
    from pairs

),

judged as (

    select
        day,
        measure,
        has_rows,
        found,
        count_if(is_same_weekday) as weekdays,
        median(past) filter (where is_same_weekday) as usual_on_weekday,
        median(past) as usual,
        greatest(0.05, 1.4826 * median(abs(past / nullif(past_expected, 0) - 1))) as spread
    from by_weekday
    group by day, measure, has_rows, found

),

expected as (

    select
        *,
        case when weekdays >= 3 then usual_on_weekday else usual end as expected,
        coalesce(usual_on_weekday, usual) as like_before
    from judged

)

select
    day,
    measure,
    round(expected) as expected,
    round(found) as found
from expected
where
    expected > 0
    and case
        when has_rows
            then
                abs(found / expected - 1) > 5 * spread
                and (found > 1.5 * expected or found < expected / 1.5)
                and (found > 1.5 * like_before or found < like_before / 1.5)
        else weekdays > 0
    end
{% endtest %}
