{% test holds(model, expression) %}
{#- A rule between columns: rows for which it is false. Unknown passes: not_null is a test of its own. -#}
select *
from {{ model }}
where not ({{ expression }})
{% endtest %}
