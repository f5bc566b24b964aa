{% test is_key(model, columns) %}
{#- Several columns together identify a row: groups with more than one row, or with a missing part. -#}
select {{ columns | join(', ') }}
from {{ model }}
group by {{ columns | join(', ') }}
having
    count(*) > 1
    {%- for column in columns %}
    or {{ column }} is null
    {%- endfor %}
{% endtest %}
