"""Write the functions over times of other dialects, whose results have the type of their argument."""

from typing import Final

import pyarrow as pa

from flightllm.common.names import (
    ADD_UNITS,
    BIGQUERY_JOINED,
    DUCKDB_JOINED,
    IN_UTC,
    JSON_STYLE,
    LAMBDA_PREFIX,
    SNOWFLAKE_ELEMENTS,
    SNOWFLAKE_JOINED,
    TIME_BETWEEN,
    TIME_VALUE,
    TRUNCATE_UNIT,
    VALUE_TEXT,
)
from flightllm.errors import UnsupportedError
from flightllm.functions.automatic_times import AUTOMATIC_TIME
from flightllm.functions.json_scalars import JSON_SCALAR
from flightllm.functions.typed_texts import TYPED_FORMAT
from flightllm.functions.value_texts import DOUBLE_TEXT, VENDOR_DOUBLE
from flightllm.sql.nodes import Json, Node, body, kind, text_of_literal
from flightllm.sql.passes.nested_json import json_form
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import INTERVAL, ExpressionTypes, arguments, function_name, is_double

UNITS: Final = frozenset({ADD_UNITS, TRUNCATE_UNIT, VALUE_TEXT, TIME_BETWEEN, TIME_VALUE, IN_UTC})
"""The functions that the pass rewrites; only the generator of other dialects writes them."""
_LENGTHS: Final = {"week": ("7 day", 7), "quarter": ("3 month", 3), "day": ("1 day", 1)}
_OF_DAYS: Final = frozenset({"day", "week"})
_OF_DATES: Final = _OF_DAYS | {"month", "quarter", "year"}


def time_units(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `__add_units('month', n, day)` as `CAST(day + n * INTERVAL '1 month' AS DATE)` for a date.

    A text is read as a timestamp. `__truncate_unit('month', day)` is `date_trunc` with the type of its argument.
    `__time_between(a, b)` is `a - b`, and the length of time between two dates.
    `__value_text(value, dialect)` is the text of a value as the dialect writes it.
    `__time_value(value, kind, format)` is what a cast of Snowflake to a day or a time reads: a number is
    seconds since 1970.
    `__in_utc(value)` is the same instant in UTC for a timestamp of another zone, and else the value.
    """
    types = ExpressionTypes(tree.root, columns_of)
    return tree.rebuilt(lambda node: _written(node, types))


def _written(node: Node, types: ExpressionTypes) -> Json:
    fields = body(node)
    if kind(node) != "Function" or (name := function_name(fields)) not in UNITS:
        return node
    given = arguments(fields)
    if name == VALUE_TEXT and text_of_literal(given[1]) in {"duckdb", DUCKDB_JOINED}:
        return node  # another pass writes DuckDB's texts, after those that compute with decimals
    if name == VALUE_TEXT:
        return _text(given, types.of(given[0]))
    if name == TIME_BETWEEN:
        dates = all(found is not None and pa.types.is_date(found) for found in map(types.of, given))
        text = "(CAST(t AS TIMESTAMP) - CAST(s AS TIMESTAMP))" if dates else "(t - s)"
        return written(text, t=given[0], s=given[1])
    if name == IN_UTC:
        return _in_utc(given[0], types.of(given[0]))
    if name == TIME_VALUE:
        return _time_value(given, types.of(given[0]))
    unit, time = _word(given[0]), given[1 if name == TRUNCATE_UNIT else 2]
    found = types.of(time)
    day = found is not None and pa.types.is_date(found) and unit in _OF_DATES
    if found is not None and pa.types.is_string(found):
        time = written("CAST(t AS TIMESTAMP)", t=time)
    if name == TRUNCATE_UNIT:
        text = f"date_trunc('{unit}', t)"
        return written(f"CAST({text} AS DATE)" if day else text, t=time)
    return _added(given[1], time, unit, day=day)


def _added(count: Json, time: Json, unit: str, *, day: bool) -> Json:
    length, days = _LENGTHS.get(unit, (f"1 {unit}", 1))
    if day and unit in _OF_DAYS:
        return written(f"(t + CAST(n AS BIGINT) * {days})" if days > 1 else "(t + CAST(n AS BIGINT))", t=time, n=count)
    text = f"(t + CAST(n AS BIGINT) * INTERVAL '{length}')"
    if (whole := _whole(count)) is not None:
        amount, name = length.split()
        text = f"(t + INTERVAL '{whole * int(amount)} {name}')"
    return written(f"CAST({text} AS DATE)" if day else text, t=time, n=count)


def _time_value(given: list[Json], found: Type) -> Json:
    """Return what a cast reads: a text in the form of ISO 8601, and a time without a zone on its own clock."""
    value, of, format_ = given
    if found is None or pa.types.is_string(found) or pa.types.is_large_string(found):
        text = f"{AUTOMATIC_TIME}({'t' if found is not None else 'CAST(t AS VARCHAR)'}, k, f)"
        return written(text, t=value, k=of, f=format_)
    if pa.types.is_integer(found):
        return written("to_timestamp_seconds(t)", t=value)
    if pa.types.is_decimal(found):
        return written("to_timestamp_micros(CAST(t * 1000000 AS BIGINT))", t=value)
    zoned = pa.types.is_timestamp(found) and found.tz is not None
    return written("to_local_time(t)", t=value) if zoned and _word(of).startswith("ntz") else value


def _text(given: list[Json], found: Type) -> Json:
    value, dialect = given[0], _word(given[1])
    if dialect == JSON_STYLE:
        if found == pa.string():
            return written(f"{JSON_SCALAR}(v, 'STRING', 'strict')", v=value)
        dialect = "bigquery"
    if dialect == BIGQUERY_JOINED:
        return _without_time(value, found)
    if dialect in {SNOWFLAKE_JOINED, SNOWFLAKE_ELEMENTS}:
        return _joined(value, found, dialect)
    if dialect in ("databricks", "spark") and _has_exponent(value):
        found = pa.float64()
    if found is None:
        return written("CAST(v AS VARCHAR)", v=value)
    if dialect in ("databricks", "spark"):
        return _spark_text(value, found)
    if pa.types.is_nested(found):
        return written(json_form("v", found) if dialect == "snowflake" else "CAST(v AS VARCHAR)", v=value)
    return _plain_text(value, found, dialect)


def _has_exponent(value: Json) -> bool:
    """Return whether a value is a literal such as 1e10 or -1e10, which is a double of Spark."""
    while kind(value) in {"Nested", "UnaryOp"}:
        value = body(value) if kind(value) == "Nested" else body(value)["expr"]
    literal = body(value)["value"] if kind(value) == "Value" else {}
    return kind(literal) == "Number" and "e" in str(body(literal)[0]).lower()


def _plain_text(value: Json, found: pa.DataType, dialect: str) -> Json:
    """Return the text of a value without parts."""
    if dialect == "bigquery" and found == INTERVAL:
        return written(f"{TYPED_FORMAT}('%t', make_array(CAST(v AS VARCHAR)), make_array('Interval'))", v=value)
    if pa.types.is_timestamp(found):
        if dialect == "bigquery":
            value = _in_utc(value, found)
        return written(_time_text(dialect, zoned=found.tz is not None), v=value)
    if pa.types.is_time(found):
        return written(_WHOLE_CLOCK if dialect == "snowflake" else _CLOCK, v=value)
    if pa.types.is_floating(found):
        return written(f"{DOUBLE_TEXT}(CAST(v AS DOUBLE))", v=value)
    return written("CAST(v AS VARCHAR)", v=value)


def _without_time(value: Json, found: Type) -> Json:
    if found is not None and (pa.types.is_timestamp(found) or pa.types.is_time(found)):
        raise UnsupportedError(
            "BigQuery joins texts by || and CONCAT, and no times: write CAST(t AS STRING) || 'text', or FORMAT('%t', t)"
        )
    return _text([value, written("'bigquery'")], found) if is_double(found) else value


def _joined(value: Json, found: Type, style: str) -> Json:
    """Return a value that Snowflake joins to a text, or a list of such values: times and doubles become texts."""
    if style == SNOWFLAKE_JOINED:
        return _text([value, _SNOWFLAKE], found) if _has_own_text(found) else value
    element = found.value_type if found is not None and pa.types.is_list(found) else None
    if not _has_own_text(element):
        return value
    name = f"{LAMBDA_PREFIX}{_DEPTH}_item"
    item = _text([written(name), _SNOWFLAKE], element)
    return written(f"array_transform(v, lambda {name} : {text_of(item)})", v=value)


def _has_own_text(found: Type) -> bool:
    tests = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_floating)
    return found is not None and any(test(found) for test in tests)


def _spark_text(value: Json, found: pa.DataType) -> Json:
    """Return the text of a value of Spark: a list is `[1, null]`.

    Raises:
        UnsupportedError: the text of the value has no counterpart.
    """
    if found == INTERVAL or pa.types.is_duration(found):
        raise UnsupportedError(
            "an interval has no text of spark here, because its units are unknown: write its parts, as in"
            " concat(extract(DAY FROM i), ' days')"
        )
    if pa.types.is_timestamp(found):
        return written(_time_text("spark", zoned=False), v=value)
    if pa.types.is_floating(found):
        digits = "CAST(v AS VARCHAR)" if pa.types.is_float32(found) else "v"  # 0.1 of 32 bits is another double
        return written(f"{VENDOR_DOUBLE}(CAST({digits} AS DOUBLE), 'spark')", v=value)
    if pa.types.is_list(found):
        element = found.value_type
        if pa.types.is_nested(element) or pa.types.is_floating(element) or pa.types.is_timestamp(element):
            raise UnsupportedError(
                "the text of a list has a counterpart for whole numbers, decimals, texts and dates: write"
                " to_json(list) for others"
            )
        return written("'[' || array_to_string(v, ', ', 'null') || ']'", v=value)
    return written("CAST(v AS VARCHAR)", v=value)


def _in_utc(value: Json, found: Type) -> Json:
    """Return the same instant in UTC for a timestamp of another zone; another value stays."""
    zoned = found is not None and pa.types.is_timestamp(found) and found.tz not in {None, "UTC"}
    return written(_IN_UTC.format(_WORDS[found.unit]), v=value) if zoned and found is not None else value


def _time_text(dialect: str, *, zoned: bool) -> str:
    """Return the text of a timestamp: Snowflake writes milliseconds, other dialects as many digits as there are."""
    if dialect == "snowflake":
        return f"to_char(v, '%Y-%m-%d %H:%M:%S%.3f{' %z' if zoned else ''}')"
    text = "rtrim(rtrim(to_char(v, '%Y-%m-%d %H:%M:%S%.6f'), '0'), '.')"
    return f"({text} || '+00')" if zoned and dialect == "bigquery" else text


_SNOWFLAKE: Final = written("'snowflake'")
_DEPTH: Final = 80
"""The number of the parameter of a lambda here: those of a text have lower ones."""
_IN_UTC: Final = """arrow_cast(v, 'Timestamp({}, Some("UTC"))')"""
"""The same instant in UTC, with a place for the unit."""
_WORDS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
_CLOCK: Final = r"regexp_replace(CAST(v AS VARCHAR), '(\.\d*?)0+$', '\1')"
"""A time of day without zeros at the end of its fraction."""
_WHOLE_CLOCK: Final = "substr(CAST(v AS VARCHAR), 1, 8)"
"""A time of day without its fraction."""


def _word(given: Json) -> str:
    """Return the text of a literal in lower case, or an empty text."""
    return (text_of_literal(given) or "").lower()


def _whole(given: Json) -> int | None:
    """Return a count that the text has as a number, with its sign."""
    sign = 1
    while kind(given) in {"UnaryOp", "Nested"}:
        if kind(given) == "UnaryOp":
            if body(given)["op"] != "Minus":
                return None
            sign, given = -sign, body(given)["expr"]
        else:
            given = body(given)
    literal = body(given)["value"] if kind(given) == "Value" else {}
    if kind(literal) != "Number":
        return None
    text = str(body(literal)[0])
    return sign * int(text) if text.isdecimal() else None
