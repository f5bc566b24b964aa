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
  {%- elif node.test_metadata.name == 'holds' -%}
    {{ return('count_if(not (' ~ given.expression ~ '))') }}
  {%- endif -%}
  {{ return(none) }}
{% endmacro %}


{% macro spark__test_relationships(model, column_name, to, field) %}
  {#-
    The rows whose parent is missing. A parent with days is read for the days of this run and some before it, not for all
    of history: payments follow their order, they do not precede it by years.
  -#}
  {%- set day = event_time_of(to) if execute and stream_range() -%}
  select child.{{ column_name }}
  from {{ model }} as child
  left anti join (
    select {{ field }} from {{ to }}
    {%- if day %}
    where {{ day }} between date_sub(date '{{ stream_range()[0] }}', {{ var('parent_days') }}) and date '{{ stream_range()[1] }}'
    {%- endif %}
  ) as parent on child.{{ column_name }} = parent.{{ field }}
  where child.{{ column_name }} is not null
{% endmacro %}


{% macro event_time_of(relation) %}
  {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.alias == relation.identifier -%}
    {{ return(node.config.event_time) }}
  {%- endfor -%}
{% endmacro %}


{% macro spark__get_where_subquery(relation) %}
  {#-
    Data tests look at the days of this run only: the other days were tested when they were built. `event_time` of the
    tested model names its day; a test's own `where` comes on top. A test that compares with the past reads as many days
    before them as its meta says in `days_before`.
  -#}
  {%- set conditions = ['true'] -%}
  {%- if config.get('where') -%}{%- do conditions.append('(' ~ config.get('where') ~ ')') -%}{%- endif -%}
  {%- set day = event_time_of(relation) if execute and stream_range() -%}
  {%- set before = (config.get('meta') or {}).get('days_before', 0) -%}
  {%- if day and before -%}
    {%- set days = stream_range() -%}
    {%- do conditions.append(day ~ " between date_sub(date '" ~ days[0] ~ "', " ~ before ~ ") and date '" ~ days[1] ~ "'") -%}
  {%- elif day -%}
    {%- do conditions.append(in_range(day)) -%}
  {%- endif -%}
  {%- if conditions | length > 1 -%}
    {#- `where (is_current)` alone would be read as a table alias with a column list; `where true and` is not. -#}
    {{ return('(select * from ' ~ relation ~ ' where ' ~ conditions | join(' and ') ~ ')') }}
  {%- endif -%}
  {{ return(relation) }}
{% endmacro %}


{% materialization test, adapter='spark' %}
  {%- set known = graph.get('evaluated_tests', {}).get(model.unique_id) -%}
  {%- if known is none -%}
    {%- do dbt.materialization_test_default() -%}
  {%- else -%}
    {%- do store_raw_result('main', message='OK', code='OK', rows_affected=none, agate_table=known) -%}
  {%- endif -%}
  {%- do keep_failing_rows() -%}
  {{ return({'relations': []}) }}
{% endmaterialization %}


{% macro keep_failing_rows() %}
  {#- The first rows of a test that failed, if its meta says that they are made to be read (`shows_rows`). -#}
  {%- if (config.get('meta') or {}).get('shows_rows') and load_result('main').table.rows[0][0] > 0 -%}
    {%- set failing = run_query('select * from (' ~ sql ~ ') limit ' ~ var('shown_rows')) -%}
    {%- set rows = [] -%}
    {%- for row in failing.rows -%}{%- do rows.append(row.dict()) -%}{%- endfor -%}
    {%- do graph.setdefault('failing_rows', {}).update({model.unique_id: rows}) -%}
  {%- endif -%}
{% endmacro %}
