{# Copied, like stream.sql, into a project that does not name its schemas itself. #}

{% macro generate_schema_name(custom_schema_name, node) %}
  {#- One schema, exactly as the profile names it. -#}
  {{ return(target.schema) }}
{% endmacro %}
