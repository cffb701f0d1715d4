{% macro flightllm__get_catalog(information_schema, schemas) -%}
  {% call statement('catalog', fetch_result=True) %}
    {{ flightllm__catalog_sql() }} where t.table_schema in (
      {%- for schema in schemas %}'{{ schema }}'{% if not loop.last %}, {% endif %}{% endfor -%}
    ) order by t.table_schema, t.table_name, c.ordinal_position
  {% endcall %}
  {{ return(load_result('catalog').table) }}
{%- endmacro %}

{% macro flightllm__get_catalog_relations(information_schema, relations) -%}
  {% call statement('catalog', fetch_result=True) %}
    {{ flightllm__catalog_sql() }} where
      {%- for relation in relations %}
      (t.table_schema = '{{ relation.schema }}' {% if relation.identifier %}and t.table_name = '{{ relation.identifier }}'{% endif %})
      {% if not loop.last %}or{% endif %}{% endfor %}
    order by t.table_schema, t.table_name, c.ordinal_position
  {% endcall %}
  {{ return(load_result('catalog').table) }}
{%- endmacro %}

{% macro flightllm__catalog_sql() -%}
  select t.table_catalog as table_database, t.table_schema, t.table_name, t.table_type,
    cast(null as varchar) as table_comment, cast(null as varchar) as table_owner,
    c.column_name, c.ordinal_position as column_index, c.data_type as column_type, cast(null as varchar) as column_comment
  from information_schema.tables t
  join information_schema.columns c on c.table_schema = t.table_schema and c.table_name = t.table_name
{%- endmacro %}
