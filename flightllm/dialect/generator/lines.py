"""Say what to write in place of functions that the generator refuses: one line for each name in a text."""

from collections.abc import Mapping
from typing import Final

_LISTS: Final = {
    **dict.fromkeys(("ARRAY_APPEND", "ARRAY_PREPEND", "ARRAY_INSERT"), "list || [value]"),
    **dict.fromkeys(("ARRAY_CAT", "ARRAY_CONCAT"), "list || list"),
    **dict.fromkeys(("ARRAY_COMPACT", "ARRAY_REMOVE"), "array_remove_all(list, NULL)"),
    **dict.fromkeys(("ARRAY_CONTAINS", "ARRAY_ANY"), "array_has(list, value)"),
    "ARRAY_DISTINCT": "list_distinct(list)",
    "ARRAY_EXCEPT": "list_except(list, list)",
    "ARRAY_FIRST": "array_element(list, 1)",
    **dict.fromkeys(("ARRAY_INTERSECT", "ARRAY_INTERSECTION"), "list_intersect(list, list)"),
    **dict.fromkeys(("ARRAY_JOIN", "ARRAY_TO_STRING"), "list_to_string(list, ', ')"),
    "ARRAY_LAST": "array_element(list, -1)",
    "ARRAY_MAX": "list_max(list)",
    "ARRAY_MIN": "(SELECT min(e) FROM UNNEST(list) AS e)",
    "ARRAY_POSITION": "list_position(list, value)",
    "ARRAY_REVERSE": "list_reverse(list)",
    "ARRAY_SLICE": "list_slice(list, 1, 2)",
    **dict.fromkeys(("ARRAY_SORT", "SORT_ARRAY"), "list_sort(list)"),
    "ARRAY_SUM": "(SELECT sum(e) FROM UNNEST(list) AS e)",
    "ARRAY_UNIQUE_AGG": "array_agg(DISTINCT value)",
    **dict.fromkeys(("STRING_TO_ARRAY", "SPLIT_BY_STRING", "STRTOK_TO_ARRAY"), "split(text, ',')"),
}
_AGGREGATES: Final = {
    **dict.fromkeys(
        ("APPROX_QUANTILE", "APPROX_QUANTILES", "APPROX_PERCENTILE_ESTIMATE", "QUANTILE"),
        "approx_percentile_cont(value, 0.5)",
    ),
    **dict.fromkeys(
        ("APPROX_TOP_K", "APPROX_TOP_SUM"),
        "SELECT value, count(*) FROM t GROUP BY value ORDER BY 2 DESC LIMIT 10",
    ),
    **dict.fromkeys(("FIRST", "LAST"), "first_value(value ORDER BY day)"),
    "HLL": "approx_distinct(value)",
}
_TEXTS: Final = {
    "BYTE_LENGTH": "octet_length(text)",
    **dict.fromkeys(("CONTAINS", "SEARCH"), "strpos(text, pattern) > 0"),
    **dict.fromkeys(("INSERT", "STUFF"), "overlay(text PLACING 'x' FROM 1 FOR 1)"),
    **dict.fromkeys(("LEFTPAD", "PAD"), "lpad(text, 5, ' ')"),
    "RIGHTPAD": "rpad(text, 5, ' ')",
    "REGEXP_FULL_MATCH": "regexp_like(text, '^(?:pattern)$')",
    **dict.fromkeys(("SIMILARITY", "JAROWINKLER_SIMILARITY"), "AI_SIMILARITY(text, text)"),
    **dict.fromkeys(("SHA", "SHA1", "SHA1_BINARY", "SHA2_BINARY", "FARM_FINGERPRINT"), "sha256(text)"),
    "SPACE": "repeat(' ', 3)",
    "SUBSTRING_INDEX": "split(text, ',')[0]",
}
_NUMBERS: Final = {
    "BOOLAND": "value > 0 AND value < 9",
    "BOOLNOT": "NOT value > 0",
    "BOOLOR": "value > 0 OR value < 9",
    **dict.fromkeys(("GETBIT", "GET_BIT"), "value & 1"),
    "COTH": "1 / tanh(value)",
    "CSC": "1 / sin(value)",
    "CSCH": "1 / sinh(value)",
    "EUCLIDEAN_DISTANCE": "array_distance(list, list)",
    **dict.fromkeys(("IS_INF", "ISINF"), "abs(value) = CAST('Infinity' AS DOUBLE)"),
    "NANVL": "CASE WHEN isnan(value) THEN 0 ELSE value END",
    "NEGATIVE": "-value",
    "RINT": "round(value)",
    "SEC": "1 / cos(value)",
    "SECH": "1 / cosh(value)",
    **dict.fromkeys(("RANDN", "NORMAL", "UNIFORM", "GENERATE_DOUBLE", "RANDSTR"), "RAND()"),
    **dict.fromkeys(("TO_DOUBLE", "TO_DECFLOAT", "TRY_TO_DECFLOAT"), "TRY_CAST(text AS DOUBLE)"),
    **dict.fromkeys(("PARSE_NUMERIC", "PARSE_BIGNUMERIC"), "TRY_CAST(text AS DECIMAL(18, 2))"),
    "SAFE_ADD": "TRY_CAST(CAST(value AS DECIMAL(38, 0)) + value AS BIGINT)",
    "SAFE_MULTIPLY": "TRY_CAST(CAST(value AS DECIMAL(38, 0)) * value AS BIGINT)",
    "SAFE_SUBTRACT": "TRY_CAST(CAST(value AS DECIMAL(38, 0)) - value AS BIGINT)",
    "SAFE_DIVIDE": "value / nullif(value, 0)",
    "SAFE_NEGATE": "-value",
}
_TIMES: Final = {
    "CURRENT_DATETIME": "CAST(CURRENT_TIMESTAMP AS TIMESTAMP)",
    **dict.fromkeys(("SYSTIMESTAMP", "UTC_TIMESTAMP"), "CURRENT_TIMESTAMP"),
    **dict.fromkeys(("CURRENT_TIME", "LOCALTIME", "UTC_TIME"), "CAST(CURRENT_TIMESTAMP AS TIME)"),
    "UTC_DATE": "CURRENT_DATE",
    **dict.fromkeys(("DATEFROMPARTS", "DATE_FROM_PARTS"), "make_date(2024, 3, 5)"),
    **dict.fromkeys(("DAY", "DAYOFMONTH", "DAY_OF_MONTH"), "EXTRACT(DAY FROM day)"),
    **dict.fromkeys(("DAYOFWEEK", "DAY_OF_WEEK"), "EXTRACT(DAYOFWEEK FROM day)"),
    **dict.fromkeys(("DAYOFYEAR", "DAY_OF_YEAR"), "EXTRACT(DAYOFYEAR FROM day)"),
    **dict.fromkeys(("DAYOFWEEK_ISO", "ISODOW"), "EXTRACT(DAYOFWEEK_ISO FROM day)"),
    "HOUR": "EXTRACT(HOUR FROM t)",
    "MINUTE": "EXTRACT(MINUTE FROM t)",
    "MONTH": "EXTRACT(MONTH FROM day)",
    "QUARTER": "EXTRACT(QUARTER FROM day)",
    "SECOND": "EXTRACT(SECOND FROM t)",
    "YEAR": "EXTRACT(YEAR FROM day)",
    **dict.fromkeys(("WEEK", "WEEKOFYEAR", "WEEK_OF_YEAR"), "date_part('week', day)"),
    **dict.fromkeys(("YEAROFWEEK", "YEAROFWEEKISO", "YEAR_OF_WEEK", "YEAR_OF_WEEK_ISO"), "EXTRACT(ISOYEAR FROM day)"),
    **dict.fromkeys(("TIMESTAMPDIFF", "TIMESTAMP_DIFF", "DATETIME_DIFF"), "to_unixtime(t) - to_unixtime(t)"),
    "TIME_TRUNC": "CAST(TIMESTAMP_TRUNC(t, HOUR) AS TIME)",
    **dict.fromkeys(("PARSE_DATETIME", "TIMESTAMP", "STR_TO_DATE"), "CAST('2024-03-05 10:11:12' AS TIMESTAMP)"),
    **dict.fromkeys(("PARSE_TIME", "TIME"), "CAST('10:11:12' AS TIME)"),
    "UNIX_SECONDS": "to_unixtime(t)",
    "ADD_MONTHS": "DATE_ADD(day, INTERVAL 1 MONTH)",
    "DAYNAME": "FORMAT_DATE('%A', day)",
    "MONTHNAME": "to_char(day, '%B')",
}
_OTHERS: Final = {
    **dict.fromkeys(("CURRENT_SCHEMAS", "CURRENT_CATALOG", "CURRENT_DATABASE"), "current_schema"),
    **dict.fromkeys(
        ("JSON_OBJECT", "MAP", "OBJECT_AGG", "OBJECT_INSERT"),
        "named_struct('name', value)",
    ),
    "NET.HOST": "REGEXP_EXTRACT(text, '//([^/:]+)')",
    "SAFE_CAST": "SAFE_CAST(text AS INT), with no format",
    "TRY_CAST": "TRY_CAST(text AS INT), with no format",
    "TYPEOF": "arrow_typeof(value)",
}
LINES: Final[Mapping[str, str]] = {**_LISTS, **_AGGREGATES, **_TEXTS, **_NUMBERS, **_TIMES, **_OTHERS}
"""The lines by names in capitals. They read the columns text, pattern, value, day, t, json and list of a table t."""
_UUIDS: Final = {"snowflake": "UUID_STRING()", "bigquery": "GENERATE_UUID()", "databricks": "uuid()", "spark": "uuid()"}


def line_for(name: str, dialect: str) -> str:
    """Return what to write in place of a function, by its name in capitals."""
    if name == "VECTOR_SEARCH":
        return "write SELECT * FROM vector_search('index', 'text', top_k => 3)"
    line = _UUIDS.get(dialect) if "UUID" in name else LINES.get(name)
    return "write it with functions that SHOW FUNCTIONS lists" if line is None else f"write {line}"
