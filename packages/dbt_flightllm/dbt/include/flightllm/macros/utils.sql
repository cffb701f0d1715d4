{% macro flightllm__dateadd(datepart, interval, from_date_or_timestamp) -%}
  {#- An interval has no quarters. -#}
  {%- set months = datepart | lower == 'quarter' -%}
  (({{ from_date_or_timestamp }}) + ({{ interval }}) * interval '{{ '3 month' if months else '1 ' ~ datepart }}')
{%- endmacro %}

{% macro flightllm__safe_cast(field, type) -%}
  try_cast({{ field }} as {{ type }})
{%- endmacro %}

{% macro flightllm__date(year, month, day) -%}
  make_date({{ year }}, {{ month }}, {{ day }})
{%- endmacro %}

{#- The server's FLOAT has 32 bits. -#}
{% macro flightllm__type_float() -%}double precision{%- endmacro %}
