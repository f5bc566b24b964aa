{% test accepted_range(model, column_name, min_value=none, max_value=none) %}
{#- Rows whose value lies outside [min_value, max_value]. Nulls pass: not_null is a test of its own. -#}
select {{ column_name }}
from {{ model }}
where
    false
    {% if min_value is not none %}or {{ column_name }} < {{ min_value }}{% endif %}
    {% if max_value is not none %}or {{ column_name }} > {{ max_value }}{% endif %}
{% endtest %}
