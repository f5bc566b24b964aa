{% test reconciles(model, to, measures, day=none, to_day=none, to_where=none) %}
{#-
  What the model holds is what it is made from: per day, the measures of both sides are equal. A measure is an aggregate
  that both sides understand, or one for each, {expected: of `to`, found: of the model}. Without a `day` the tables are
  compared as a whole. A model that filters on purpose says the same in `to_where`. Rows are the measures that differ.
-#}
{{ config(severity='error', meta={'shows_rows': true}) }}
{%- set blank = 'cast(null as decimal(38, 4))' -%}
with both_sides as (

    select
        {{ day or 'cast(null as date)' }} as day
        {%- for name, measure in measures.items() %},
        {{ blank }} as expected_{{ loop.index }},
        cast({{ measure if measure is string else measure.found }} as decimal(38, 4)) as found_{{ loop.index }}
        {%- endfor %}
    from {{ model }}
    group by all

    union all

    select
        {{ to_day or day or 'cast(null as date)' }} as day
        {%- for name, measure in measures.items() %},
        cast({{ measure if measure is string else measure.expected }} as decimal(38, 4)) as expected_{{ loop.index }},
        {{ blank }} as found_{{ loop.index }}
        {%- endfor %}
    from {{ to }}
    where
        {{ to_where or 'true' }}
        {%- if day %} and {{ in_range(to_day or day) }}{% endif %}
    group by all

),

side_by_side as (

    select
        day,
        stack(
            {{ measures | length }}
            {%- for name in measures %},
            '{{ name }}', coalesce(sum(expected_{{ loop.index }}), 0), coalesce(sum(found_{{ loop.index }}), 0)
            {%- endfor %}
        ) as (measure, expected, found)
    from both_sides
    group by day

)

select * from side_by_side
where expected != found
{% endtest %}
