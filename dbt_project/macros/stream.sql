{#
  How Gold tables are replaced. `stream` copies this file into any dbt project it runs, so it holds nothing but a range of
  days and two incremental strategies:

    replace_where     {{ config(materialized='incremental', incremental_strategy='replace_where', partition_by='order_date') }}
                      select ... from {{ ref('stg_orders') }} where {{ in_range('order_date') }}

                      A run given the vars `start_date` and `end_date` (inclusive, YYYY-MM-DD) replaces exactly those days
                      in one commit. A run without them replaces the whole table.

    replace_changed   {{ config(materialized='incremental', incremental_strategy='replace_changed') }}

                      Replaces the whole table in one commit, and makes no commit when the rows are the same: for small
                      tables that are delivered every day and change once a month.

  Both can be repeated in any order with the same result.
#}

{% macro stream_range() %}
  {%- set days = [var('start_date', none), var('end_date', none)] -%}
  {%- if days == [none, none] -%}
    {{ return(none) }}
  {%- endif -%}
  {%- for day in days if not modules.re.fullmatch('\d{4}-\d{2}-\d{2}', day | string) -%}
    {{ exceptions.raise_compiler_error("start_date and end_date must both be days like 2025-01-31, or both be left out. Got: " ~ days) }}
  {%- endfor -%}
  {{ return(days) }}
{% endmacro %}


{% macro in_range(column) -%}
  {#- The days of this run, as a predicate on a day column that Spark can push down to the partitions. -#}
  {%- set days = stream_range() -%}
  {%- if days -%}
    ({{ column }} >= date '{{ days[0] }}' and {{ column }} <= date '{{ days[1] }}')
  {%- else -%}
    true
  {%- endif -%}
{%- endmacro %}


{% materialization incremental, adapter='spark', supported_languages=['sql', 'python'] %}
  {%- set strategy = config.get('incremental_strategy') -%}
  {%- if strategy not in ['replace_where', 'replace_changed'] -%}
    {{ return(dbt_spark.materialization_incremental_spark()) }}
  {%- endif -%}

  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}

  {{ run_hooks(pre_hooks) }}

  {%- if should_full_refresh() or (existing_relation is not none and existing_relation.is_view) -%}
    {#- Forgotten first: an in-memory catalogue fails on `create or replace` of a partitioned table whose columns changed. -#}
    {%- if existing_relation is not none -%}
      {%- do adapter.drop_relation(existing_relation) -%}
    {%- endif -%}
    {%- call statement('main') -%}
      {{ create_table_as(False, target_relation, compiled_code) }}
    {%- endcall -%}
  {%- else -%}
    {%- if existing_relation is none -%}
      {%- call statement('create') -%}
        {{ stream_create_table(target_relation, compiled_code) }}
      {%- endcall -%}
    {%- endif -%}
    {%- set columns = stream_align_columns(target_relation, compiled_code) -%}
    {%- if strategy == 'replace_changed' and stream_is_unchanged(target_relation, columns, compiled_code) -%}
      {%- do store_raw_result('main', message='unchanged', code='unchanged', rows_affected=none) -%}
    {%- else -%}
      {%- call statement('main') -%}
        {{ stream_replace_sql(target_relation, columns, compiled_code) }}
      {%- endcall -%}
    {%- endif -%}
  {%- endif -%}

  {%- do apply_grants(target_relation, config.get('grants'), should_revoke=should_revoke(existing_relation, should_full_refresh())) -%}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{% macro stream_replace_sql(relation, columns, sql) %}
  {#-
    Columns are named because INSERT matches by position: a model whose columns moved would write them crosswise.
    Rows are brought together by day because each task would otherwise write a file into each day: 8 tasks and a year make
    2,920 files. Only a query that is planned anew between its shuffles can be rebalanced, which splits a day that is large.
  -#}
  {%- set day = stream_day() -%}
  {%- set together = 'repartition' if var('planned_once', false) else 'rebalance' -%}
  insert {{ 'into ' ~ relation ~ ' replace where ' ~ in_range(day) if day and stream_range() else 'overwrite ' ~ relation }}
  select {{ '/*+ ' ~ together ~ '(' ~ day ~ ') */ ' if day }}{{ columns | join(', ') }}
  from (
    {{ sql }}
  )
{% endmacro %}


{% macro stream_day() %}
  {#- The day column of this model; none for a model that is replaced as a whole. -#}
  {%- if config.get('incremental_strategy') == 'replace_changed' -%}
    {{ return(none) }}
  {%- endif -%}
  {%- set day = config.require('partition_by') -%}
  {{ return(day if day is string else day[0]) }}
{% endmacro %}


{% macro stream_is_unchanged(relation, columns, sql) %}
  {#- Whether the table holds exactly these rows. A null is hashed as such: on its own it would leave no trace. -#}
  {%- set parts = [] -%}
  {%- for column in columns -%}{%- do parts.append(column ~ ' is null, ' ~ column) -%}{%- endfor -%}
  {%- set digest -%}
    select struct(count(*) as n, sum(cast(xxhash64({{ parts | join(', ') }}) as decimal(20, 0))) as h) as digest
  {%- endset -%}
  {%- set compared -%}
    select ({{ digest }} from {{ relation }}) = ({{ digest }} from ({{ sql }})) as is_unchanged
  {%- endset -%}
  {{ return(run_query(compared).rows[0][0]) }}
{% endmacro %}


{% macro stream_create_table(relation, sql) %}
  {#-
    Not `create or replace`: where the catalogue has forgotten a table whose files exist, this finds it again, and a run
    of one day does not throw away the other days.
  -#}
  create table if not exists {{ relation }} (
    {% for column in adapter.get_column_schema_from_query(sql) %}
    {{ adapter.quote(column.name) }} {{ column.data_type }}
    {%- set description = model.columns.get(column.name, {}).get('description') %}
    {%- if description %} comment '{{ description | replace("\\", "\\\\") | replace("'", "\\'") }}'{% endif %}
    {{- ',' if not loop.last }}
    {% endfor %}
  )
  {{ file_format_clause() }}
  {{ tblproperties_clause() }}
  {{ partition_cols(label='partitioned by') }}
  {{ location_clause() }}
  comment '{{ model.description | trim | replace("\\", "\\\\") | replace("'", "\\'") }}'
{% endmacro %}


{% macro stream_align_columns(relation, sql) %}
  {#- The table's columns, quoted, after adding those the model has documented since. -#}
  {%- set present = adapter.get_columns_in_relation(relation) | map(attribute='name') | map('lower') | list -%}
  {%- set missing = model.columns.keys() | map('lower') | reject('in', present) | list -%}
  {%- if missing -%}
    {%- set added = [] -%}
    {%- for column in adapter.get_column_schema_from_query(sql) if column.name | lower in missing -%}
      {%- do added.append(column) -%}
    {%- endfor -%}
    {%- if added -%}
      {%- call statement('add_columns') -%}
        alter table {{ relation }} add columns (
          {% for column in added %}{{ adapter.quote(column.name) }} {{ column.data_type }}{{ ', ' if not loop.last }}{% endfor %}
        )
      {%- endcall -%}
    {%- endif -%}
    {%- set present = present + (added | map(attribute='name') | list) -%}
  {%- endif -%}
  {%- set quoted = [] -%}
  {%- for name in present -%}
    {%- do quoted.append(adapter.quote(name)) -%}
  {%- endfor -%}
  {{ return(quoted) }}
{% endmacro %}
