"""Values as canonical text, from PostgreSQL's output and from Arrow, and when two of them count as equal."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FAMILIES = {
    "smallint": "int",
    "integer": "int",
    "bigint": "int",
    "numeric": "numeric",
    "real": "real",
    "double precision": "float",
    "text": "text",
    "character varying": "text",
    "character": "text",
    "name": "text",
    "unknown": "text",
    '"char"': "text",
    "boolean": "bool",
    "date": "date",
    "time without time zone": "time",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "interval": "interval",
    "bytea": "bytea",
    "json": "json",
    "jsonb": "json",
}
"""The family of each type of PostgreSQL, by its name without length and precision."""
NULL, _NUMBERS = "NULL", ("int", "numeric", "real", "float")
_TOLERANCE = {"real": 1e-6}
_MICROS_A_DAY = 86_400_000_000


def family_of(kind: str) -> str:
    """Return the family of a type as PostgreSQL's `format_type` writes it."""
    if kind.endswith("[]"):
        return f"{family_of(kind.removesuffix('[]'))}[]"
    plain = re.sub(r"\([\d,]+\)|(?<=^interval) .*", "", kind)
    return FAMILIES.get(plain, plain.replace(" ", "_"))


def alike(left: str, right: str) -> bool:
    """Return whether columns of two families can hold the same values: all numbers are one family."""
    if "null" in (left.removesuffix("[]"), right.removesuffix("[]")):
        return True
    return _number(left) == _number(right)


def _number(family: str) -> str:
    element = family.replace("[]", "")
    return family.replace(element, "number") if element in _NUMBERS else family


def canonical(cell: str | None, family: str) -> str:
    """Return a cell of PostgreSQL's output as canonical text."""
    if cell is None:
        return NULL
    if family == "text":
        return quoted(cell)
    if family == "bool":
        return "true" if cell == "t" else "false"
    if family == "numeric":
        return plain_decimal(Decimal(cell))
    return quoted(cell)[1:-1]


def quoted(text: str) -> str:
    """Return a text in quotes on one line, without the separator of cells."""
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"), ("|", "\\|")):
        text = text.replace(plain, escaped)
    return f"'{text}'"


def plain_decimal(value: Decimal) -> str:
    """Return a decimal without zeros at its end and without an exponent."""
    if not value.is_finite():
        return str(value).replace("sNaN", "NaN")
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def equal(found: str, wanted: str, ours: str, theirs: str) -> bool:
    """Return whether two cells are equal; `ours` and `theirs` are the families of their columns."""
    if found == wanted:
        return True
    if NULL in (found, wanted):
        return False
    element = theirs.replace("[]", "")
    if element not in _NUMBERS:
        return False
    tolerance = 0.0 if {ours, theirs} <= {"int"} else max(_TOLERANCE.get(one, 1e-9) for one in (ours, theirs))
    left, right = (re.findall(r"[^{},]+|[{},]", one) for one in (found, wanted))
    return len(left) == len(right) and all(_close(a, b, tolerance) for a, b in zip(left, right, strict=True))


def equal_spans(found: str, wanted: str, ours: str, theirs: str) -> bool:
    """Return whether two cells are equal; an interval is equal to another one of the same length.

    PostgreSQL leaves open which of two intervals is the maximum, or stays of a group, if `=` is true of them.
    """
    if ours == theirs == "interval" and NULL not in (found, wanted):
        return length(found) == length(wanted)
    return equal(found, wanted, ours, theirs)


def length(text: str) -> int:
    """Return an interval's length in microseconds; a month has 30 days, as in PostgreSQL's comparisons."""
    days = {"year": 360, "mon": 30, "day": 1}
    total = sum(int(n) * days[unit] * _MICROS_A_DAY for n, unit in re.findall(r"([+-]?\d+) (year|mon|day)", text))
    clock = re.search(r"([+-]?)(\d+):(\d+):(\d+)(?:\.(\d+))?$", text)
    if clock is None:
        return total
    hours, minutes, seconds = (int(clock[i]) for i in (2, 3, 4))
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int((clock[5] or "").ljust(6, "0"))
    return total + (-micros if clock[1] == "-" else micros)


def _close(left: str, right: str, tolerance: float) -> bool:
    if left == right:
        return True
    try:
        a, b = Decimal(left), Decimal(right)
    except InvalidOperation:
        return False
    if not a.is_finite() or not b.is_finite():
        return (a.is_nan() and b.is_nan()) or a == b
    return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def arrow_family(kind: pa.DataType) -> str:
    """Return the family of an Arrow type."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        # PostgreSQL's arrays of arrays have the type of arrays.
        inner = arrow_family(kind.value_type)
        return inner if inner.endswith("[]") else f"{inner}[]"
    if pa.types.is_dictionary(kind):
        return arrow_family(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    families: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
        (pa.types.is_null, "null"),
        (pa.types.is_integer, "int"),
        (pa.types.is_decimal, "numeric"),
        (pa.types.is_float32, "real"),
        (pa.types.is_floating, "float"),
        (pa.types.is_boolean, "bool"),
        (pa.types.is_date, "date"),
        (pa.types.is_time, "time"),
        (pa.types.is_interval, "interval"),
        (pa.types.is_duration, "interval"),
        (_is_text, "text"),
        (_is_binary, "bytea"),
    )
    return next((family for test, family in families if test(kind)), str(kind).replace(" ", "_"))


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )  # fmt: skip


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def arrow_cells(column: pa.ChunkedArray) -> list[str]:
    """Return the cells of a column as canonical text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        micros = pa.timestamp("us", kind.tz and "UTC") if pa.types.is_timestamp(kind) else pa.duration("us")
        column = pc.cast(column, micros, safe=False)
    elif pa.types.is_time(kind):
        column = pc.cast(column, pa.time64("us"), safe=False)
    family = arrow_family(kind)
    return [NULL if value is None else arrow_cell(value, family) for value in column.to_pylist()]


def arrow_cell(value: Any, family: str) -> str:
    """Return a value that Arrow gave as canonical text."""
    for kind, text in _WRITERS:
        if isinstance(value, kind):
            return text(value, family)
    return number(value, family)


def number(value: Any, family: str) -> str:
    """Return a number as canonical text."""
    if isinstance(value, Decimal):
        return plain_decimal(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return (str(np.float32(value)) if family == "real" else repr(value)).removesuffix(".0")
    return str(value)


def stamp(value: datetime) -> str:
    """Return a timestamp as PostgreSQL writes it."""
    return f"{value.date().isoformat()} {_clock(value.time())}"


def _clock(value: time) -> str:
    text = value.isoformat()
    return text.rstrip("0") if "." in text else text


def _array(values: Sequence[Any], family: str) -> str:
    """Return an array as PostgreSQL writes it."""
    return "{" + ",".join(_element(value, family) for value in values) + "}"


def _element(value: Any, family: str) -> str:
    if isinstance(value, list):
        return _array(value, family)
    if isinstance(value, bool):
        return "t" if value else "f"
    if value is None:
        return NULL
    text = value if isinstance(value, str) else arrow_cell(value, family)
    if text and text.upper() != NULL and not re.search(r'[{}",\\\s]', text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def duration(micros: int) -> str:
    """Return a difference of timestamps, which PostgreSQL counts in days and a time of the same sign."""
    days = abs(micros) // _MICROS_A_DAY * (1 if micros > 0 else -1)
    return interval(0, days, micros - days * _MICROS_A_DAY)


def interval(months: int, days: int, micros: int) -> str:
    """Return an interval as PostgreSQL writes it."""
    years, months = (abs(months) // 12 * (1 if months > 0 else -1), int(math.fmod(months, 12)))
    text, negative = "", False
    for count, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if count:
            sign = "+" if negative and count > 0 else ""
            text += f"{' ' if text else ''}{sign}{count} {unit}{'' if count == 1 else 's'}"
            negative = count < 0
    if not micros and text:
        return text
    sign = "-" if micros < 0 else "+" if negative else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    tail = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{text}{' ' if text else ''}{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{tail}"


_WRITERS: tuple[tuple[type, Callable[[Any, str], str]], ...] = (
    (type(None), lambda _, __: NULL),
    (bool, lambda value, _: "true" if value else "false"),
    (str, lambda value, _: quoted(value)),
    (bytes, lambda value, _: quoted(f"\\x{value.hex()}")[1:-1]),
    (list, lambda value, family: quoted(_array(value, family.removesuffix("[]")))[1:-1]),
    (timedelta, lambda value, _: duration(value // timedelta(microseconds=1))),
    (datetime, lambda value, _: stamp(value) + ("" if value.tzinfo is None else "+00")),
    (date, lambda value, _: value.isoformat()),
    (time, lambda value, _: _clock(value)),
    (pa.MonthDayNano, lambda value, _: interval(value.months, value.days, int(value.nanoseconds / 1000))),
)
"""How values are written, by their types; a subclass is before its base."""
