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
  {%- elif strategy not in adapter.valid_incremental_strategies() -%}
    {{ exceptions.raise_compiler_error("incremental_strategy " ~ strategy ~ " is not one of append, delete+insert, merge") }}
  {%- elif strategy != 'append' and not key -%}
    {{ exceptions.raise_compiler_error("incremental_strategy " ~ strategy ~ " needs a unique_key") }}
  {%- endif -%}
  {%- set anew = existing is none or existing.type != 'table' or should_full_refresh() -%}
  {{ run_hooks(pre_hooks) }}
  {% if anew %}
    {% if existing is not none and existing.type != 'table' %}{{ drop_relation_if_exists(existing) }}{% endif %}
    {% call statement('main') -%}{{ get_create_table_as_sql(False, target, sql) }}{%- endcall %}
  {% else %}
    {%- set temporary = make_temp_relation(target) -%}
    {% do run_query(get_create_table_as_sql(True, temporary, sql)) %}
    {%- set names = [] -%}
    {%- for column in adapter.get_columns_in_relation(target) %}{% do names.append(adapter.quote(column.name)) %}{% endfor -%}
    {%- set keys = [key] if key is string else (key or []) -%}
    {%- if strategy == 'delete+insert' -%}
      {% call statement('delete') -%}
        delete from {{ target.include(database=false) }} as d using {{ temporary }} as s
        where {% for k in keys %}d.{{ k }} = s.{{ k }}{% if not loop.last %} and {% endif %}{% endfor %}
      {%- endcall %}
    {%- endif -%}
    {% call statement('main') -%}
      {%- if strategy == 'merge' -%}
        {%- set changed = config.get('merge_update_columns', names) -%}
        merge into {{ target.include(database=false) }} as d using {{ temporary }} as s
        on {% for k in keys %}d.{{ k }} = s.{{ k }}{% if not loop.last %} and {% endif %}{% endfor %}
        when matched then update set {% for n in changed %}{{ n }} = s.{{ n }}{% if not loop.last %}, {% endif %}{% endfor %}
        when not matched then insert ({{ names | join(', ') }}) values (s.{{ names | join(', s.') }})
      {%- else -%}
        insert into {{ target.include(database=false) }} ({{ names | join(', ') }}) select {{ names | join(', ') }} from {{ temporary }}
      {%- endif -%}
    {%- endcall %}
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
