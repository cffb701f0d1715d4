"""Say what to write in place of functions of Spark and Databricks that the server does not have."""

from typing import Final

from flightllm.dialect.generator.calls import Table, no

_XML: Final = "write regexp_extract(xml, '<name>([^<]*)</name>', 1)"
_PARTS: Final = "write make_timestamp(year, month, day, hour, minute, second)"
_NAMES: Final = {
    "write approx_count_distinct(x)": (
        "HLL_SKETCH_AGG HLL_SKETCH_ESTIMATE HLL_UNION HLL_UNION_AGG THETA_SKETCH_AGG THETA_SKETCH_ESTIMATE THETA_UNION"
        " THETA_UNION_AGG THETA_INTERSECTION THETA_INTERSECTION_AGG THETA_DIFFERENCE"
        " TUPLE_SKETCH_AGG_DOUBLE TUPLE_SKETCH_AGG_INTEGER TUPLE_SKETCH_ESTIMATE_DOUBLE TUPLE_SKETCH_ESTIMATE_INTEGER"
        " TUPLE_SKETCH_SUMMARY_DOUBLE TUPLE_SKETCH_SUMMARY_INTEGER TUPLE_SKETCH_THETA_DOUBLE"
        " TUPLE_SKETCH_THETA_INTEGER"
    ),
    "write percentile_approx(x, 0.5)": (
        "KLL_SKETCH_AGG_BIGINT KLL_SKETCH_AGG_DOUBLE KLL_SKETCH_AGG_FLOAT KLL_SKETCH_GET_QUANTILE_BIGINT"
        " KLL_SKETCH_GET_QUANTILE_DOUBLE KLL_SKETCH_GET_QUANTILE_FLOAT KLL_SKETCH_GET_RANK_BIGINT"
        " KLL_SKETCH_GET_RANK_DOUBLE KLL_SKETCH_GET_RANK_FLOAT"
        " KLL_SKETCH_GET_N_BIGINT KLL_SKETCH_GET_N_DOUBLE KLL_SKETCH_GET_N_FLOAT KLL_SKETCH_TO_STRING_BIGINT"
        " KLL_SKETCH_TO_STRING_DOUBLE KLL_SKETCH_TO_STRING_FLOAT"
    ),
    "write count(DISTINCT x)": (
        "BITMAP_AND_AGG BITMAP_BIT_POSITION BITMAP_BUCKET_NUMBER BITMAP_CONSTRUCT_AGG BITMAP_COUNT BITMAP_OR_AGG"
    ),
    "write SELECT x, count(*) FROM t GROUP BY x ORDER BY 2 DESC LIMIT 5": (
        "APPROX_TOP_K_ACCUMULATE APPROX_TOP_K_COMBINE APPROX_TOP_K_ESTIMATE"
    ),
    _XML: (
        "FROM_XML SCHEMA_OF_XML XPATH XPATH_BOOLEAN XPATH_DOUBLE XPATH_FLOAT XPATH_INT XPATH_LONG XPATH_NUMBER"
        " XPATH_SHORT XPATH_STRING"
    ),
    "write concat('<a>', a, '</a>')": "TO_XML",
    _PARTS: "MAKE_TIMESTAMP_LTZ MAKE_TIMESTAMP_NTZ TRY_MAKE_TIMESTAMP TRY_MAKE_TIMESTAMP_LTZ TRY_MAKE_TIMESTAMP_NTZ",
    "write date_trunc('HOUR', time) as a key of GROUP BY": "SESSION_WINDOW TIME_BUCKET WINDOW WINDOW_TIME",
    "the server has no keys: encrypt and decrypt in the client, or write sha2(text, 256) for a mark": (
        "AES_DECRYPT AES_ENCRYPT TRY_AES_DECRYPT"
    ),
    "the server runs no Java: write it with functions that SHOW FUNCTIONS lists": "JAVA_METHOD REFLECT TRY_REFLECT",
    "write variant_get(v, '$.name') for a part, and make another JSON text in the client": (
        "VARIANT_ARRAY_APPEND VARIANT_DELETE VARIANT_INSERT VARIANT_SET VARIANT_STRIP_NULLS"
        " TRY_VARIANT_ARRAY_APPEND TRY_VARIANT_INSERT TRY_VARIANT_SET TO_VARIANT_OBJECT"
    ),
    "write try_variant_get(v, '$', 'string') IS NULL": "IS_VALID_VARIANT IS_VARIANT_NULL",
    "write json_object_keys(json)": "SCHEMA_OF_VARIANT SCHEMA_OF_VARIANT_AGG",
    "write split(text, ',')": "SCHEMA_OF_CSV",
    "each text is valid here: write its name without the function": "MAKE_VALID_UTF8 TRY_VALIDATE_UTF8",
    "write levenshtein(a, b)": "JARO_WINKLER_SIMILARITY",
    "write x - lag(x) OVER (ORDER BY time)": "COUNTER_DIFF",
    "write unix_micros(time) * 1000": "UNIX_NANOS",
    "write array_distinct(flatten(collect_list(list)))": "COLLECT_UNION",
    "write grouping(a) for each key": "GROUPING_ID",
    "the server has no blocks of files: leave it out, or write 0": "INPUT_FILE_BLOCK_LENGTH INPUT_FILE_BLOCK_START",
    "write current_schema": "CURRENT_PATH",
    "write the longitude and the latitude as two columns": "ST_GEOGFROMWKB ST_GEOMFROMWKB ST_SETSRID ST_SRID",
}
SPARK_ABSENT: Final[Table] = {name: no(line) for line, names in _NAMES.items() for name in names.split()}
"""Functions without a counterpart."""
