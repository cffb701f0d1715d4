{#- The server replaces a table or view in one step, so no intermediate name is needed. -#}

{% materialization table, adapter='flightllm' %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set grants = config.get('grants') -%}
  {{ run_hooks(pre_hooks) }}
  {% if existing is not none and existing.type != 'table' %}{{ drop_relation_if_exists(existing) }}{% endif %}
  {% call statement('main') -%}{{ get_create_table_as_sql(False, target, sql) }}{%- endcall %}
  {{ run_hooks(post_hooks) }}
  {% do apply_grants(target, grants, should_revoke=should_revoke(existing, full_refresh_mode=True)) %}
  {% do persist_docs(target, model) %}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization view, adapter='flightllm' %}
  {%- set target = this.incorporate(type='view') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set grants = config.get('grants') -%}
  {{ run_hooks(pre_hooks) }}
  {% if existing is not none and existing.type != 'view' %}{{ drop_relation_if_exists(existing) }}{% endif %}
  {% call statement('main') -%}{{ get_create_view_as_sql(target, sql) }}{%- endcall %}
  {{ run_hooks(post_hooks) }}
  {% do apply_grants(target, grants, should_revoke=should_revoke(existing, full_refresh_mode=True)) %}
  {% do persist_docs(target, model) %}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization incremental, adapter='flightllm' %}
  {%- set target = this.incorporate(type='table') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set grants = config.get('grants') -%}
  {%- set key = config.get('unique_key') -%}
  {%- set strategy = config.get('incremental_strategy') or ('merge' if key else 'append') -%}
  {%- if strategy == 'microbatch' -%}
    {{ exceptions.raise_compiler_error("incremental_strategy microbatch is not supported: write delete+insert with a unique_key, or append") }}
  {%- elif strategy in ('merge', 'delete+insert') and not key -%}
    {{ exceptions.raise_compiler_error("incremental_strategy " ~ strategy ~ " needs a unique_key") }}
  {%- endif -%}
  {%- set build = adapter.get_incremental_strategy_macro(context, strategy) -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {%- set anew = existing is none or existing.type != 'table' or should_full_refresh() -%}
  {{ run_hooks(pre_hooks) }}
  {% if anew %}
    {% if existing is not none and existing.type != 'table' %}{{ drop_relation_if_exists(existing) }}{% endif %}
    {% call statement('main') -%}{{ get_create_table_as_sql(False, target, sql) }}{%- endcall %}
  {% else %}
    {%- set temporary = make_temp_relation(target) -%}
    {% do run_query(get_create_table_as_sql(True, temporary, sql)) %}
    {%- set columns = process_schema_changes(on_schema_change, temporary, existing) -%}
    {%- set arguments = {
      'target_relation': target.include(database=false),
      'temp_relation': temporary,
      'unique_key': key,
      'dest_columns': columns or adapter.get_columns_in_relation(target),
      'incremental_predicates': config.get('predicates') or config.get('incremental_predicates'),
    } -%}
    {% call statement('main') -%}{{ build(arguments) }}{%- endcall %}
    {% call statement('drop_temporary') -%}drop table if exists {{ temporary }}{%- endcall %}
  {% endif %}
  {{ run_hooks(post_hooks) }}
  {% do apply_grants(target, grants, should_revoke=should_revoke(existing, full_refresh_mode=anew)) %}
  {% do persist_docs(target, model) %}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization materialized_view, adapter='flightllm' %}
  {{ exceptions.raise_compiler_error("materialized_view is not supported: write materialized='table', or 'incremental' for new rows alone") }}
{% endmaterialization %}
