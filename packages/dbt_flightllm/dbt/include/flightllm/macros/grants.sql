{#- Rights of the owner and of the profile's own user are no grants of dbt's. -#}
{% macro flightllm__get_show_grant_sql(relation) -%}
  select grantee, lower(privilege_type) as privilege_type
  from information_schema.table_privileges
  where table_schema = '{{ relation.schema }}' and table_name = '{{ relation.identifier }}'
    and grantor <> grantee and grantee <> current_user
{%- endmacro %}

{% macro flightllm__get_grant_sql(relation, privilege, grantees) -%}
  grant {{ privilege }} on {{ relation.include(database=false) }} to {{ adapter.quote(grantees[0]) }}
{%- endmacro %}

{% macro flightllm__get_revoke_sql(relation, privilege, grantees) -%}
  revoke {{ privilege }} on {{ relation.include(database=false) }} from {{ adapter.quote(grantees[0]) }}
{%- endmacro %}

{% macro flightllm__support_multiple_grantees_per_dcl_statement() -%}{{ return(false) }}{%- endmacro %}

{% macro flightllm__call_dcl_statements(dcl_statement_list) -%}
  {% for dcl_statement in dcl_statement_list %}
    {% call statement('grants') %}{{ dcl_statement }}{% endcall %}
  {% endfor %}
{%- endmacro %}
