{% macro flightllm__list_schemas(database) -%}
  {% call statement('list_schemas', fetch_result=True, auto_begin=False) %}
    select distinct schema_name from information_schema.schemata
  {% endcall %}
  {{ return(load_result('list_schemas').table) }}
{%- endmacro %}

{% macro flightllm__check_schema_exists(information_schema, schema) -%}
  {% call statement('check_schema_exists', fetch_result=True, auto_begin=False) %}
    select count(*) from information_schema.schemata where schema_name = '{{ schema }}'
  {% endcall %}
  {{ return(load_result('check_schema_exists').table) }}
{%- endmacro %}

{% macro flightllm__create_schema(relation) -%}
  {%- call statement('create_schema') -%}
    create schema if not exists {{ relation.without_identifier().include(database=false) }}
  {%- endcall -%}
{%- endmacro %}

{% macro flightllm__drop_schema(relation) -%}
  {%- call statement('drop_schema') -%}
    drop schema if exists {{ relation.without_identifier().include(database=false) }}
  {%- endcall -%}
{%- endmacro %}

{% macro flightllm__get_columns_in_relation(relation) -%}
  {% call statement('get_columns_in_relation', fetch_result=True) %}
    select column_name, case when data_type like 'DECIMAL(%' then 'DECIMAL' else data_type end as data_type,
      character_maximum_length, numeric_precision, numeric_scale
    from information_schema.columns
    where table_name = '{{ relation.identifier }}'
    {% if relation.schema %}and table_schema = '{{ relation.schema }}'{% else %}and table_schema like 'pg_temp_%'{% endif %}
    order by ordinal_position
  {% endcall %}
  {{ return(sql_convert_columns_in_relation(load_result('get_columns_in_relation').table)) }}
{%- endmacro %}

{% macro flightllm__get_empty_subquery_sql(select_sql, select_sql_header=none) -%}
  {{ select_sql_header or '' }}
  select * from ({{ select_sql }}) as __dbt_sbq where false limit 0
{%- endmacro %}

{% macro flightllm__drop_relation(relation) -%}
  {% call statement('drop_relation', auto_begin=False) -%}
    drop {{ relation.type or 'table' }} if exists {{ relation }} cascade
  {%- endcall %}
{%- endmacro %}

{% macro flightllm__rename_relation(from_relation, to_relation) -%}
  {% call statement('rename_relation') -%}
    alter {{ from_relation.type or 'table' }} {{ from_relation }} rename to {{ adapter.quote(to_relation.identifier) }}
  {%- endcall %}
{%- endmacro %}

{#- The server changes no columns: the table is made again, in one step. -#}
{% macro flightllm__alter_column_type(relation, column_name, new_column_type) -%}
  {%- set columns = [] -%}
  {%- for column in adapter.get_columns_in_relation(relation) -%}
    {%- set changed = 'cast(' ~ column.quoted ~ ' as ' ~ new_column_type ~ ') as ' ~ column.quoted -%}
    {%- do columns.append(changed if column.name == column_name else column.quoted) -%}
  {%- endfor -%}
  {% do flightllm__make_again(relation, columns) %}
{%- endmacro %}

{% macro flightllm__alter_relation_add_remove_columns(relation, add_columns, remove_columns) -%}
  {%- set removed = (remove_columns or []) | map(attribute='name') | list -%}
  {%- set columns = [] -%}
  {%- for column in adapter.get_columns_in_relation(relation) if column.name not in removed -%}
    {%- do columns.append(column.quoted) -%}
  {%- endfor -%}
  {%- for column in add_columns or [] -%}
    {%- do columns.append('cast(null as ' ~ column.expanded_data_type ~ ') as ' ~ column.quoted) -%}
  {%- endfor -%}
  {% do flightllm__make_again(relation, columns) %}
{%- endmacro %}

{#- A snapshot whose source has got columns. -#}
{% macro flightllm__create_columns(relation, columns) -%}
  {% if columns %}{% do flightllm__alter_relation_add_remove_columns(relation, columns, none) %}{% endif %}
{%- endmacro %}

{% macro flightllm__make_again(relation, columns) -%}
  {%- set name = relation.include(database=false) -%}
  {% do run_query('create or replace table ' ~ name ~ ' as select ' ~ columns | join(', ') ~ ' from ' ~ name) %}
{%- endmacro %}

{% macro flightllm__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- set contract = config.get('contract').enforced and not temporary -%}
  {{ config.get('sql_header') or '' }}
  {% if contract %}{{ get_assert_columns_equivalent(compiled_code) }}{% do flightllm__warn_of_constraints() %}{% endif %}
  create or replace {% if temporary %}temporary {% endif %}table {{ relation.include(database=false, schema=not temporary) }}
  as {{ get_select_subquery(compiled_code) if contract else compiled_code }}
{%- endmacro %}

{#- Rendered for dbt's warnings alone. -#}
{% macro flightllm__warn_of_constraints() -%}
  {%- do adapter.render_raw_columns_constraints(raw_columns=model['columns']) -%}
  {%- do adapter.render_raw_model_constraints(raw_constraints=model['constraints']) -%}
{%- endmacro %}

{% macro flightllm__create_view_as(relation, sql) -%}
  {%- set header = config.get('sql_header', none) -%}
  {{ header if header is not none }}
  create or replace view {{ relation.include(database=false) }}
  {% if config.get('contract').enforced -%}{{ get_assert_columns_equivalent(sql) }}{%- endif %}
  as {{ sql }}
{%- endmacro %}

{% macro flightllm__make_temp_relation(base_relation, suffix) -%}
  {{ return(base_relation.incorporate(path={"identifier": base_relation.identifier ~ suffix, "schema": none, "database": none})) }}
{%- endmacro %}

{% macro flightllm__make_intermediate_relation(base_relation, suffix) -%}
  {{ return(base_relation.incorporate(path={"identifier": base_relation.identifier ~ suffix})) }}
{%- endmacro %}

{#- Microseconds, as Python's times have. -#}
{% macro flightllm__current_timestamp() -%}cast(now() as timestamp(6) with time zone){%- endmacro %}

{% macro flightllm__snapshot_string_as_time(timestamp) -%}
  {{ return("cast('" ~ timestamp ~ "' as timestamp)") }}
{%- endmacro %}

{% macro flightllm__get_binding_char() -%}{{ return('?') }}{%- endmacro %}
{% macro flightllm__get_batch_size() -%}{{ return(1000) }}{%- endmacro %}
