{# House rules of this project. #}

{% macro generate_schema_name(custom_schema_name, node) %}
  {#- One schema, exactly as the profile names it. -#}
  {{ return(target.schema) }}
{% endmacro %}


{% macro surrogate_key(columns) -%}
  md5(concat_ws('|', {{ columns | join(', ') }}))
{%- endmacro %}


{% macro spark__get_where_subquery(relation) %}
  {#-
    Data tests look at the days of this run only: the other days were tested when they were built. `event_time` of the
    tested model names its day; a test's own `where` comes on top.
  -#}
  {%- set conditions = ['true'] -%}
  {%- if config.get('where') -%}
    {%- do conditions.append('(' ~ config.get('where') ~ ')') -%}
  {%- endif -%}
  {%- if execute and stream_range() -%}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.alias == relation.identifier and node.config.event_time -%}
      {%- do conditions.append(in_range(node.config.event_time)) -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if conditions | length > 1 -%}
    {#- `where (is_current)` alone would be read as a table alias with a column list; `where true and` is not. -#}
    {{ return('(select * from ' ~ relation ~ ' where ' ~ conditions | join(' and ') ~ ') dbt_subquery') }}
  {%- endif -%}
  {{ return(relation) }}
{% endmacro %}
