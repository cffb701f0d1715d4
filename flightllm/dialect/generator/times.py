"""Write intervals, sums with them, and parts of times."""

from collections.abc import Mapping
from typing import Any, Final

from flightllm.common.names import ADD_UNITS, TIME_BETWEEN
from flightllm.dialect.generator.forms import LENGTHS, in_utc
from flightllm.dialect.generator.reading import written_name
from flightllm.dialect.generator.written import SPARKS, WEEKDAYS, Written
from flightllm.errors import UnsupportedError

_KEEP_DATES: Final = ("snowflake", *SPARKS)
"""Dialects in which a date plus days, months or years is a date."""
_SUNDAY_FIRST: Final = ("bigquery", *SPARKS)
"""Dialects that count the days of a week from 1 on Sundays."""
_PARTS: Final = {
    "DAYOFYEAR": "doy",
    "DOY": "doy",
    "DAYOFWEEKISO": "isodow",
    "DAYOFWEEK_ISO": "isodow",
    "DOW_ISO": "isodow",
    "ISOYEAR": "isoyear",
    "YEAROFWEEK": "isoyear",
    "YEAROFWEEKISO": "isoyear",
    "WEEKISO": "week",
    "EPOCH_SECOND": "epoch",
}
_SECONDS: Final = ("SECOND", "SECONDS", "SEC", "SECS", "S")
_AFTER_SECONDS: Final = {"MILLISECOND": 1_000, "MICROSECOND": 1_000_000}
"""Parts that BigQuery counts within a second, and PostgreSQL within a minute."""


def times() -> Mapping[type, Written]:
    """Return the function that writes an expression with intervals, by sqlglot's class."""
    from sqlglot import exp

    added = (exp.DateAdd, exp.DatetimeAdd, exp.TimestampAdd, exp.TsOrDsAdd, exp.TimeAdd)
    taken = (exp.DateSub, exp.DatetimeSub, exp.TimestampSub, exp.TimeSub)
    return {
        exp.Add: lambda generator, found: _sum(generator, found, "+"),
        exp.Sub: lambda generator, found: _sum(generator, found, "-"),
        exp.Interval: _interval,
        exp.Extract: _extract,
        exp.AtTimeZone: _at_zone,
        **dict.fromkeys(added, lambda generator, found: _delta(generator, found, "")),
        **dict.fromkeys(taken, lambda generator, found: _delta(generator, found, "-")),
    }


def _delta(generator: Any, found: Any, sign: str) -> str:
    """Write a time plus or minus a number of units."""
    from sqlglot import exp

    unit = str(found.args["unit"].name if found.args.get("unit") else "DAY").lower().removesuffix("s")
    unit = unit if unit not in {"isoweek", "w"} else "week"
    if unit not in LENGTHS:
        raise UnsupportedError(
            f"{written_name(found)} of {generator.read_from} adds no {unit}s: write {', '.join(LENGTHS)}"
        )
    count = found.expression
    if generator.read_from == "bigquery" and isinstance(found, exp.DateAdd | exp.DateSub) and found.this.is_string:
        found.set("this", exp.cast(found.this.copy(), exp.DType.DATE))
    if isinstance(count, exp.Interval):
        operator = "-" if sign else "+"
        return f"({generator.sql(found, 'this')} {operator} {generator.sql(count)})"
    text = str(count.name) if isinstance(count, exp.Literal) else f"({generator.sql(count)})"
    if sign:
        text = text[1:] if text.startswith("-") else f"-{text}"
    time = generator.sql(found, "this")
    if isinstance(found, exp.TsOrDsAdd):
        time = f"CAST({time} AS DATE)"
    return f"{ADD_UNITS}('{unit}', {text}, {time}, INTERVAL '1 {unit}')"


def _sum(generator: Any, found: Any, operator: str) -> str:
    from sqlglot import exp

    right = found.expression
    unit = str(right.unit.name).lower().removesuffix("s") if isinstance(right, exp.Interval) and right.unit else ""
    if generator.read_from in _KEEP_DATES and unit in LENGTHS and right.this is not None:
        text = str(right.this.name) if isinstance(right.this, exp.Literal) else f"({generator.sql(right, 'this')})"
        if operator == "-":
            text = text[1:] if text.startswith("-") else f"-{text}"
        if text.lstrip("-").isdecimal() or text.lstrip("-").startswith("("):
            return f"{ADD_UNITS}('{unit}', {text}, {generator.sql(found, 'this')}, INTERVAL '1 {unit}')"
    sides = (found.this, right)
    if operator == "-" and generator.read_from in _SUNDAY_FIRST and not any(map(_is_amount, sides)):
        return f"{TIME_BETWEEN}({generator.sql(found, 'this')}, {generator.sql(right)})"
    return str(generator.binary(found, operator))


def _is_amount(value: Any) -> bool:
    """Return whether a value is surely no date: a number, an interval or the result of arithmetic."""
    from sqlglot import exp

    inner = value.unnest() if isinstance(value, exp.Paren) else value
    return isinstance(inner, exp.Literal | exp.Interval | exp.Neg | exp.Mul | exp.Div | exp.Mod | exp.Count)


def _interval(generator: Any, found: Any) -> str:
    """Write `INTERVAL -7 DAY` as `INTERVAL '-7 DAY'`, and an interval of a column as a product."""
    from sqlglot import exp

    value, unit = found.this, found.args.get("unit")
    if isinstance(value, exp.Paren) and isinstance(value.this, exp.Literal | exp.Neg):
        value = value.this
    sign = ""
    while isinstance(value, exp.Neg):
        sign, value = ("" if sign else "-"), value.this
    if value is None or isinstance(unit, exp.IntervalSpan):
        return str(generator.interval_sql(found))
    name = f" {unit.name.lower()}" if unit is not None else ""
    if name == " isoweek":
        name = " week"
    if isinstance(value, exp.Literal):
        return f"INTERVAL '{sign}{value.name.replace(',', '').strip()}{name}'"
    return f"({sign}CAST({generator.sql(value)} AS BIGINT) * INTERVAL '1{name}')"


def _at_zone(generator: Any, found: Any) -> str:
    """Write `time AT TIME ZONE 'Asia/Tokyo'`, which BigQuery has only after EXTRACT and for times with a zone."""
    time, zone = generator.sql(found, "this"), generator.sql(found, "zone")
    if generator.read_from == "bigquery":
        return f"(CAST({time} AS TIMESTAMPTZ) AT TIME ZONE {zone})"
    return f"{time} AT TIME ZONE {zone}"


def _week(day: str, time: str) -> str:
    """Write the number of the week in its year: week 1 begins on the year's first Sunday, or another `day`.

    Raises:
        UnsupportedError: there is no such day.
    """
    if day not in WEEKDAYS:
        raise UnsupportedError(f"the day {day} is unknown: write WEEK(MONDAY)")
    passed = f"(CAST(date_part('dow', {time}) AS BIGINT) + {(6 - WEEKDAYS.index(day)) % 7}) % 7"
    return f"((CAST(date_part('doy', {time}) AS BIGINT) + 6 - {passed}) / 7)"


def _extract(generator: Any, found: Any) -> str:
    """Write a part of a time by its meaning in the dialect."""
    from sqlglot import exp

    written, time, dialect = found.this.name.upper(), generator.sql(found, "expression"), generator.read_from
    if dialect == "bigquery":
        time = in_utc(found.expression, time)
    if dialect in {"duckdb", "postgres"}:
        if written == "DAYOFYEAR":
            return f"EXTRACT(doy FROM {time})"
        return f"EXTRACT({generator.sql(found, 'this')} FROM {time})"
    if written in {"DAYOFWEEK", "DOW"}:
        more = " + 1" if dialect in _SUNDAY_FIRST else ""
        return f"CAST(date_part('dow', {time}){more} AS BIGINT)"
    if written in _SECONDS and dialect in SPARKS:
        return f"CAST(date_part('microsecond', {time}) / 1000000.0 AS DECIMAL(8, 6))"
    if dialect == "bigquery" and written == "ISOWEEK":
        return f"CAST(date_part('week', {time}) AS BIGINT)"
    if dialect == "bigquery" and (isinstance(found.this, exp.WeekStart) or written == "WEEK"):
        return _week("SUNDAY" if written == "WEEK" else written, time)
    if written in {"DATE", "TIME"}:
        return f"CAST({time} AS {written})"
    if dialect == "bigquery" and written in _AFTER_SECONDS:
        return f"CAST(date_part('{written.lower()}', {time}) AS BIGINT) % {_AFTER_SECONDS[written]}"
    return f"CAST(trunc(date_part('{_PARTS.get(written, written.lower())}', {time})) AS BIGINT)"
