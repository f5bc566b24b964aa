{#
  All tests of a model in one statement. On a small day the fixed cost of a query (planning it, opening the table) is
  nearly all of its cost: 55 tests took as much of the machine as the 21 models they test. So a model counts the
  failures of its tests right after it is written, in one pass over the days of this run, and its test nodes pick up
  their number. dbt still decides: severity, thresholds and what is skipped work as always. A test that cannot be
  counted this way (relationships, tests with a `where`, tests run without their model) runs as its own query.
#}

{% macro evaluate_tests(relation) %}
  {%- set tests = [] -%}
  {%- if execute -%}
    {%- for node in graph.nodes.values() if node.attached_node == model.unique_id and node.unique_id in selected_resources -%}
      {%- set failures = failures_of(node) -%}
      {%- if failures -%}{%- do tests.append({'id': node.unique_id, 'config': node.config, 'failures': failures}) -%}{%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if tests -%}
    {%- set results = run_query(tests_sql(relation, tests)) -%}
    {%- set known = graph.setdefault('evaluated_tests', {}) -%}
    {%- for row in results.rows -%}
      {%- do known.update({row['test_id']: results.limit(loop.index0, loop.index).select(['failures', 'should_warn', 'should_error'])}) -%}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}


{% macro tests_sql(relation, tests) %}
  select stack(
    {{ tests | length }}
    {%- for test in tests %},
    '{{ test.id }}', f{{ loop.index }}, f{{ loop.index }} {{ test.config.warn_if }}, f{{ loop.index }} {{ test.config.error_if }}
    {%- endfor %}
  ) as (test_id, failures, should_warn, should_error)
  from (
    select
    {%- for test in tests %}
      {{ test.failures }} as f{{ loop.index }}{{ ',' if not loop.last }}
    {%- endfor %}
    from {{ relation }}
    {%- if config.get('event_time') %}
    where {{ in_range(config.get('event_time')) }}
    {%- endif %}
  )
{% endmacro %}


{% macro failures_of(node) %}
  {#- Rows that fail a test, as an aggregate; none when it is not one. -#}
  {%- set given = node.test_metadata.kwargs -%}
  {%- set column = given.column_name -%}
  {%- if node.config.where or node.config.limit or node.config.store_failures or node.config.fail_calc != 'count(*)' -%}
    {{ return(none) }}
  {%- elif node.test_metadata.name == 'not_null' -%}
    {{ return('count(*) - count(' ~ column ~ ')') }}
  {%- elif node.test_metadata.name == 'unique' -%}
    {{ return('count(' ~ column ~ ') - count(distinct ' ~ column ~ ')') }}
  {%- elif node.test_metadata.name == 'is_key' -%}
    {{ return('count(*) - count(distinct ' ~ given['columns'] | join(', ') ~ ')') }}
  {%- elif node.test_metadata.name == 'accepted_values' -%}
    {%- set values = given['values'] | map('string') | list -%}
    {%- set listed = "'" ~ values | join("', '") ~ "'" if given.get('quote', true) else values | join(', ') -%}
    {{ return('count_if(' ~ column ~ ' not in (' ~ listed ~ '))') }}
  {%- elif node.test_metadata.name == 'accepted_range' -%}
    {%- set bounds = [] -%}
    {%- if given.get('min_value') is not none -%}{%- do bounds.append(column ~ ' < ' ~ given.min_value) -%}{%- endif -%}
    {%- if given.get('max_value') is not none -%}{%- do bounds.append(column ~ ' > ' ~ given.max_value) -%}{%- endif -%}
    {{ return('count_if(' ~ bounds | join(' or ') ~ ')') }}
  {%- endif -%}
  {{ return(none) }}
{% endmacro %}


{% materialization test, adapter='spark' %}
  {%- set known = graph.get('evaluated_tests', {}).get(model.unique_id) -%}
  {%- if known is none -%}
    {{ return(dbt.materialization_test_default()) }}
  {%- endif -%}
  {%- do store_raw_result('main', message='OK', code='OK', rows_affected=none, agate_table=known) -%}
  {{ return({'relations': []}) }}
{% endmaterialization %}
