"""Texts with values in places: `format` with braces and `printf` with percent signs, as in DuckDB."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final

import pyarrow as pa

from flightllm.common.names import quoted
from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

IN_BRACES, IN_PERCENTS = "__format", "__printf"
"""The names of the functions in SQL."""
FORMAT_ARGUMENTS: Final = (pa.string(), pa.list_(pa.string()), pa.list_(pa.string()))
"""The template, the texts of the values, and the names of their types."""
_PLACE: Final = re.compile(r"\{\{|\}\}|\{(\d*)(?::([^{}]*))?\}|[{}]")
_PERCENT: Final = re.compile(r"%(?:%|([-+ 0,#]*)(\d*)(\.\d+)?([a-zA-Z]))|%")
_SPEC: Final = re.compile(r"(?:.?[<>^])?[-+ ]?#?0?(\d{0,3})[,_']?(?:\.(\d{1,3}))?[bdeEfFgGosxXc]?")
_WIDEST: Final = 1_000
_POSTGRES: Final = re.compile(r"%(?:\d+\$)?-?\d*[sIL]")
_POSTGRES_PLACE: Final = re.compile(r"%(?:%|(?:(\d{1,3})\$)?(-?)(\d{0,4})([sIL]))|%")
_PLAIN_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_INTEGERS: Final = "doxX"


def in_braces(templates: pa.Array, values: pa.Array, types: pa.Array) -> pa.Array:
    """Return templates with values in place of `{}`, `{0}` and `{:.2f}`; `{{` is a brace, and a NULL gives NULL.

    A template with `%s`, `%I` or `%L` and without braces is one of PostgreSQL.

    Raises:
        SqlError: a place has no value, or its format does not fit the value.
    """
    return _filled(templates, values, types, _braces)


def in_percents(templates: pa.Array, values: pa.Array, types: pa.Array) -> pa.Array:
    """Return templates with values in place of `%d`, `%s` and `%.2f`; `%%` is a percent sign, and a NULL gives NULL.

    Raises:
        SqlError: a place has no value, or its format does not fit the value.
    """
    return _filled(templates, values, types, _percents)


def _filled(
    templates: pa.Array, values: pa.Array, types: pa.Array, fill: Callable[[str, list[object]], str]
) -> pa.Array:
    rows = zip(templates.to_pylist(), values.to_pylist(), types.to_pylist(), strict=True)
    made: list[str | None] = []
    for template, texts, kinds in rows:
        if template is None or texts is None:
            made.append(None)
            continue
        if fill is _braces and _POSTGRES.search(template) and not _PLACE.search(template):
            made.append(_as_postgres(template, texts))
            continue
        if None in texts:
            made.append(None)
            continue
        given = [_value(text, kind) for text, kind in zip(texts, kinds, strict=True)]
        try:
            made.append(fill(template, given))
        except (ValueError, IndexError, OverflowError, TypeError) as error:
            raise SqlError(f"the format {template[:100]!r} does not fit its values: {error}") from error
    return pa.array(made, pa.string())


def _as_postgres(template: str, texts: list[str | None]) -> str:
    """Return a template of PostgreSQL with texts in place of `%s`, names for `%I` and literals for `%L`."""
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] == "%%":
            return "%"
        if found[4] is None:
            raise SqlError("format reads %s, %I and %L: write %% for a percent sign")
        count = int(found[1]) if found[1] else count + 1
        if not 1 <= count <= len(texts) or int(found[3] or 0) > _WIDEST:
            raise SqlError(f"the format {template[:100]!r} has a place {count}, and there are {len(texts)} values")
        text = _quoted(texts[count - 1], found[4])
        width = int(found[3] or 0)
        return text.ljust(width) if found[2] else text.rjust(width)

    return _POSTGRES_PLACE.sub(one, template)


def _quoted(text: str | None, kind: str) -> str:
    if kind == "s":
        return text or ""
    if kind == "L":
        return "NULL" if text is None else "'" + text.replace("'", "''") + "'"
    if text is None:
        raise SqlError("a name for %I in a format is NULL: write coalesce(name, '')")
    return text if _PLAIN_NAME.fullmatch(text) else quoted(text)


def _value(text: str, kind: str) -> object:
    """Return a value by its text and the name of its type."""
    if kind.startswith(("Int", "UInt")) and not kind.startswith("Interval"):
        return int(text)
    if kind.startswith("Float"):
        return float(text)
    return Decimal(text) if kind.startswith("Decimal") else text


def _braces(template: str, values: list[object]) -> str:
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] in {"{{", "}}"}:
            return found[0][0]
        if found[1] is None:
            raise ValueError("write {{ for a brace")
        place = int(found[1]) if found[1] else count
        count += not found[1]
        return _formatted(_at(values, place), found[2] or "")

    return _PLACE.sub(one, template)


def _percents(template: str, values: list[object]) -> str:
    count = 0

    def one(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] == "%%":
            return "%"
        if found[4] is None:
            raise ValueError("write %% for a percent sign")
        value = _at(values, count)
        count += 1
        kind = "d" if found[4] == "i" else found[4]
        flags, width, precision = found[1], found[2], found[3] or ""
        if kind == "s" and not isinstance(value, str):
            raise ValueError("%s takes a text: write %d for a whole number, and %f for another number")
        text = isinstance(value, str)
        side = ("<" if "-" in flags else ">") if width else ""
        sign = next((mark for mark in "+ " if mark in flags), "") if not text else ""
        zero = "0" if "0" in flags and "-" not in flags and not text else ""
        spec = f"{'' if zero else side}{sign}{'#' if '#' in flags else ''}{zero}{width}"
        return _formatted(value, f"{spec}{',' if ',' in flags else ''}{precision}{kind}")

    return _PERCENT.sub(one, template)


def _at(values: list[object], place: int) -> object:
    if place >= len(values):
        raise IndexError(f"it has a place {place + 1}, and there are {len(values)} values")
    return values[place]


def _formatted(value: object, spec: str) -> str:
    found = _SPEC.fullmatch(spec)
    if found is None or max(int(found[1] or 0), int(found[2] or 0)) > _WIDEST:
        raise ValueError(f"it has the place {spec[:40]!r}: write a form such as .2f, 05d or >10")
    kind = spec[-1:]
    if kind and kind in _INTEGERS and not isinstance(value, int):
        raise ValueError(f"{kind!r} takes a whole number")
    if kind and kind in "eEfFgG" and isinstance(value, int):
        raise ValueError(f"{kind!r} takes a number with a fraction: write CAST(x AS DOUBLE)")
    return format(value, spec)


FUNCTIONS: Final = (
    OwnFunction(in_braces, FORMAT_ARGUMENTS, pa.string(), IN_BRACES),
    OwnFunction(in_percents, FORMAT_ARGUMENTS, pa.string(), IN_PERCENTS),
)
