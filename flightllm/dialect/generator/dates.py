"""Write functions over dates and times."""

from collections.abc import Mapping
from typing import Any

from flightllm.dialect.formats import from_letters
from flightllm.dialect.generator.forms import in_utc
from flightllm.dialect.generator.written import MONTHS, SECONDS, Written, unit_of
from flightllm.errors import UnsupportedError
from flightllm.sql.literals import text_literal


def dates() -> Mapping[type, Written]:
    """Return the function that writes an expression over times, by sqlglot's class."""
    from sqlglot import exp

    return {exp.DateDiff: _difference, exp.LastDay: _last_day}


def _difference(generator: Any, found: Any) -> str:
    """Write the number of unit boundaries between two times."""
    return difference(unit_of(found, "DAY"), generator.sql(found, "this"), generator.sql(found, "expression"))


def difference(unit: str, until: str, since: str) -> str:
    """Return the text of the number of boundaries of a unit between two times."""
    if unit in MONTHS:
        days = [f"CAST({day} AS DATE)" for day in (until, since)]
        if unit == "YEAR":
            counts = [f"DATE_PART('year', {day})" for day in days]
        else:
            each = 12 // MONTHS[unit]
            counts = [f"({each} * DATE_PART('year', {day}) + DATE_PART('{unit.lower()}', {day}))" for day in days]
        return f"CAST({counts[0]} - {counts[1]} AS BIGINT)"
    if unit in SECONDS:
        ends = [f"TO_UNIXTIME(DATE_TRUNC('{unit.lower()}', CAST({day} AS TIMESTAMP)))" for day in (until, since)]
        return f"(({ends[0]} - {ends[1]}) / {SECONDS[unit]})"
    if unit in _FINE:
        return f"({in_units(unit, until)} - {in_units(unit, since)})"
    if unit == "DAY":
        return f"(CAST({until} AS DATE) - CAST({since} AS DATE))"
    weeks = [f"CAST(DATE_TRUNC('week', CAST({day} AS DATE)) AS DATE)" for day in (until, since)]
    return f"(({weeks[0]} - {weeks[1]}) / 7)"


def in_units(unit: str, time: str) -> str:
    """Return the text of the whole units of a part of a second between 1970 and a time."""
    return f"CAST(arrow_cast(CAST({time} AS TIMESTAMP), 'Timestamp({unit.capitalize()}, None)') AS BIGINT)"


_FINE = ("MILLISECOND", "MICROSECOND", "NANOSECOND")


def _last_day(generator: Any, found: Any) -> str:
    unit = unit_of(found, "MONTH")
    start = f"DATE_TRUNC('{unit.lower().removeprefix('iso')}', CAST({generator.sql(found, 'this')} AS DATE))"
    length = f"{MONTHS[unit]} months" if unit in MONTHS else "7 days"
    return f"CAST({start} + INTERVAL '{length}' - INTERVAL '1 day' AS DATE)"


def formatted(generator: Any, found: Any) -> str:
    """Write `CAST(day AS STRING FORMAT 'YYYY-MM')` of BigQuery.

    Raises:
        UnsupportedError: the format must be a text literal, with letters that have a counterpart.
    """
    from sqlglot import exp

    written = found.args["format"]
    is_text = isinstance(written, exp.Literal) and found.to.this in exp.DataType.TEXT_TYPES
    try:
        letters = from_letters(str(written.name)) if is_text else ""
    except ValueError:
        letters = ""
    if "%" not in letters:
        raise UnsupportedError(
            f"CAST with the FORMAT {generator.sql(written)} of {generator.read_from} has no counterpart here: write"
            " FORMAT_TIMESTAMP('%Y-%m-%d', value), where %A is the name of the day and %B that of the month"
        )
    return f"to_char({in_utc(found.this, generator.sql(found, 'this'))}, {text_literal(letters)})"
