{#- Each strategy is one statement, which takes effect as a whole. NULL in a key equals NULL. -#}

{% macro flightllm__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) -%}
  {%- set names = dest_columns | map(attribute='quoted') | list -%}
  {%- set updated = get_merge_update_columns(config.get('merge_update_columns'), config.get('merge_exclude_columns'), dest_columns) -%}
  {{ config.get('sql_header') or '' }}
  merge into {{ target }} as DBT_INTERNAL_DEST using {{ source }} as DBT_INTERNAL_SOURCE
  on {{ flightllm__same_key(unique_key, incremental_predicates) }}
  when matched then update set {% for n in updated %}{{ n }} = DBT_INTERNAL_SOURCE.{{ n }}{{ ', ' if not loop.last }}{% endfor %}
  when not matched then insert ({{ names | join(', ') }}) values (DBT_INTERNAL_SOURCE.{{ names | join(', DBT_INTERNAL_SOURCE.') }})
{%- endmacro %}

{#- Each key comes once with a mark that deletes the old rows, and each new row without it, so that none matches.
    The source shares no column's name with the table, so a predicate's names are the table's. -#}
{% macro flightllm__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) -%}
  {%- set names = dest_columns | map(attribute='quoted') | list -%}
  {%- set keys = [unique_key] if unique_key is string else unique_key -%}
  merge into {{ target }} as DBT_INTERNAL_DEST using (
    select {% for k in keys %}{{ k }} as __dbt_key_{{ loop.index }}, {% endfor %}
      {% for n in names %}null as __dbt_new_{{ loop.index }}, {% endfor %}true as __dbt_old
    from (select distinct {{ keys | join(', ') }} from {{ source }}) as k
    union all select {% for k in keys %}{{ k }} as __dbt_key_{{ loop.index }}, {% endfor %}
      {% for n in names %}{{ n }} as __dbt_new_{{ loop.index }}, {% endfor %}false from {{ source }}
  ) as DBT_INTERNAL_SOURCE
  on DBT_INTERNAL_SOURCE.__dbt_old and {% for k in keys -%}
    DBT_INTERNAL_DEST.{{ k }} is not distinct from DBT_INTERNAL_SOURCE.__dbt_key_{{ loop.index }}{{ ' and ' if not loop.last }}
  {%- endfor %}{% for predicate in incremental_predicates or [] %} and ({{ predicate }}){% endfor %}
  when matched then delete
  when not matched and not DBT_INTERNAL_SOURCE.__dbt_old then insert ({{ names | join(', ') }})
    values ({% for n in names %}DBT_INTERNAL_SOURCE.__dbt_new_{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{% macro flightllm__same_key(unique_key, predicates) -%}
  {%- for k in ([unique_key] if unique_key is string else unique_key) -%}
    DBT_INTERNAL_DEST.{{ k }} is not distinct from DBT_INTERNAL_SOURCE.{{ k }}{{ ' and ' if not loop.last }}
  {%- endfor %}{% for predicate in predicates or [] %} and ({{ predicate }}){% endfor %}
{%- endmacro %}
