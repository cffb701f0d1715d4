"""Write BigQuery's functions over dates and times."""

import re
from typing import Any, Final

from flightllm.common.names import ADD_UNITS
from flightllm.dialect.generator.calls import Call, Rule, Table, form
from flightllm.dialect.generator.dates import difference
from flightllm.dialect.generator.forms import LENGTHS, in_utc, truncated
from flightllm.dialect.generator.written import WEEKDAYS
from flightllm.functions.percent_times import IN_MICROSECONDS, READ_TIME, WRITTEN_TIME
from flightllm.sql.literals import text_literal

_MICROS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}
_ZONE_IN_TEXT: Final = re.compile(r"(.*\d)\s+([A-Za-z_]+(?:/[A-Za-z_]+)+|UTC)")
"""A text of a time with the name of its zone."""


def unit_of(call: Call, place: int, usual: str = "") -> tuple[str, int]:
    """Return the unit that an argument names, and the first day of a WEEK: 0 is Monday, and 6 is Sunday."""
    from sqlglot import exp

    value: Any = call.args[place] if place < len(call.args) else None
    if value is None and usual:
        return usual, 6
    if isinstance(value, exp.WeekStart):
        day = str(value.name).upper()
        if day not in WEEKDAYS:
            call.refuse(f"the day {day} is unknown: write WEEK(MONDAY)")
        return "WEEK", WEEKDAYS.index(day)
    name = (call.literal(place) or "").upper()
    if name == "ISOWEEK":
        return "WEEK", 0
    if name not in {*_MICROS, "WEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR"}:
        call.refuse(
            f"the unit {name or 'of the call'} is unknown: write one of DAY, WEEK, ISOWEEK, MONTH, QUARTER, YEAR"
        )
    return name, 6


def _moved(days: int, time: str) -> str:
    return f"{ADD_UNITS}('day', {days}, {time}, INTERVAL '1 day')" if days else time


def begin_of(unit: str, first: int, time: str) -> str:
    """Return the text of the begin of a unit, with the type of the time."""
    if unit == "WEEK":
        return _moved(first and first - 7, truncated("week", _moved(first and 7 - first, time)))
    if unit == "ISOYEAR":  # January 4 is in the first week
        return truncated("week", _moved(3, truncated("year", _moved(3, truncated("week", time)))))
    return truncated(unit.lower(), time)


def _micros(time: str) -> str:
    return f"arrow_cast(arrow_cast({time}, 'Timestamp(Microsecond, None)'), 'Int64')"


def _time_micros(time: str) -> str:
    return f"arrow_cast(arrow_cast(CAST({time} AS TIME), 'Time64(Microsecond)'), 'Int64')"


def boundaries(unit: str, first: int, until: str, since: str) -> str:
    """Return the text of the number of boundaries of a unit between two times."""
    if unit == "ISOYEAR":
        years = [f"CAST(date_part('isoyear', CAST({time} AS DATE)) AS BIGINT)" for time in (until, since)]
        return f"({years[0]} - {years[1]})"
    if unit == "WEEK" and first:
        until, since = (f"(CAST({time} AS DATE) + {7 - first})" for time in (until, since))
    if unit in {"MILLISECOND", "MICROSECOND"}:
        ends = [_micros(f"date_trunc('{unit.lower()}', CAST({time} AS TIMESTAMP))") for time in (until, since)]
        return f"(({ends[0]} - {ends[1]}) / {_MICROS[unit]})"
    return difference(unit, until, since)


def _difference(call: Call) -> str:
    unit, first = unit_of(call, 2, "DAY")
    return boundaries(unit, first, _instant(call, 0), _instant(call, 1))


def _instant(call: Call, place: int) -> str:
    return in_utc(call.args[place], call.sql(place))


def _elapsed(call: Call) -> str:
    unit, _ = unit_of(call, 2)
    if unit not in _MICROS:
        call.refuse("TIMESTAMP_DIFF accepts the units DAY, HOUR, MINUTE, SECOND and parts of a second: write DATE_DIFF")
    ends = [_micros(f"CAST({call.sql(place)} AS TIMESTAMP)") for place in (0, 1)]
    return f"(({ends[0]} - {ends[1]}) / {_MICROS[unit]})"


def _between_times(call: Call) -> str:
    unit, _ = unit_of(call, 2)
    if unit not in _MICROS or unit == "DAY":
        call.refuse("TIME_DIFF accepts the units HOUR, MINUTE, SECOND and parts of a second: write one of them")
    ends = [f"{_time_micros(call.sql(place))} / {_MICROS[unit]}" for place in (0, 1)]
    return f"({ends[0]} - {ends[1]})"


def _truncated_time(call: Call) -> str:
    unit, _ = unit_of(call, 1)
    if unit not in _MICROS or unit == "DAY":
        call.refuse("TIME_TRUNC accepts the units HOUR, MINUTE, SECOND and parts of a second: write one of them")
    whole = f"({_time_micros(call.sql(0))} / {_MICROS[unit]} * {_MICROS[unit]})"
    return f"arrow_cast({whole}, 'Time64(Microsecond)')"


def _truncated(call: Call) -> str:
    unit, first = unit_of(call, 1, "DAY")
    time = _instant(call, 0)
    if call.name == "DATE_TRUNC" and call.text(0) is not None:
        time = f"CAST({time} AS DATE)"
    if unit.lower() not in {*LENGTHS, "isoyear", "millisecond", "microsecond"}:
        call.refuse(f"the unit {unit} is unknown: write one of {', '.join(LENGTHS)}")
    if len(call.args) < 3:
        return begin_of(unit, first, time)
    zone = call.sql(2)
    there = f"CAST((CAST({time} AS TIMESTAMPTZ) AT TIME ZONE {zone}) AS TIMESTAMP)"
    return f"({begin_of(unit, first, there)} AT TIME ZONE {zone})"


def _last_day(call: Call) -> str:
    unit, first = unit_of(call, 1, "MONTH")
    if unit not in {"WEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR"}:
        call.refuse("LAST_DAY accepts the units WEEK, ISOWEEK, MONTH, QUARTER, YEAR and ISOYEAR: write one of them")
    day = f"CAST({_instant(call, 0)} AS DATE)"
    if unit == "WEEK":
        return f"CAST({_moved(6, begin_of(unit, first, day))} AS DATE)"
    if unit == "ISOYEAR":
        inside = _moved(3, truncated("week", day))
        following = f"{ADD_UNITS}('year', 1, {truncated('year', inside)}, INTERVAL '1 year')"
        return f"CAST({_moved(-1, truncated('week', _moved(3, following)))} AS DATE)"
    months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
    return f"CAST(date_trunc('{unit.lower()}', {day}) + INTERVAL '{months} months' - INTERVAL '1 day' AS DATE)"


def _written_time(kind: str) -> Rule:
    def rule(call: Call) -> str:
        if not 2 <= len(call.args) <= (3 if kind == "TIMESTAMP" else 2):
            call.refuse(f"write {call.name}('%Y-%m-%d', value)")
        zone = call.sql(2) if len(call.args) > 2 else "'UTC'"
        begin = IN_MICROSECONDS.format("(DATE '1970-01-01' + CAST({} AS TIME))" if kind == "TIME" else "{}")
        day = f"CAST({_instant(call, 1)} AS DATE)" if kind == "DATE" else call.sql(1)
        return f"{WRITTEN_TIME}({begin.format(day)}, {call.sql(0)}, {zone})"

    return rule


def _read_time(kind: str, *, safe: bool = False) -> Rule:
    def rule(call: Call) -> str:
        if not 2 <= len(call.args) <= (3 if kind == "TIMESTAMP" else 2):
            call.refuse(f"write {call.name}('%Y-%m-%d', text)")
        zone = call.sql(2) if len(call.args) > 2 else "'UTC'"
        made = f"{READ_TIME}({call.sql(1)}, {call.sql(0)}, {zone}, {'true' if safe else 'false'})"
        return (
            f"({made} AT TIME ZONE 'UTC')"
            if kind == "TIMESTAMP"
            else f"CAST({made} AS {kind.replace('DATETIME', 'TIMESTAMP')})"
        )

    return rule


def _timestamp(call: Call) -> str:
    text = call.text(0)
    if text is not None and len(call.args) == 1 and (found := _ZONE_IN_TEXT.fullmatch(text.strip())):
        return f"(CAST({text_literal(found[1])} AS TIMESTAMP) AT TIME ZONE {text_literal(found[2])})"
    if len(call.args) == 2:
        return f"(CAST({call.sql(0)} AS TIMESTAMP) AT TIME ZONE {call.sql(1)})"
    if len(call.args) != 1:
        call.refuse("write TIMESTAMP(value) or TIMESTAMP(value, 'Europe/Paris')")
    return f"CAST({call.sql(0)} AS TIMESTAMPTZ)"


def _in_zone(kind: str) -> str:
    return f"CAST((CAST({{0}} AS TIMESTAMPTZ) AT TIME ZONE {{1}}) AS {kind})"


def _datetime(call: Call) -> str:
    if len(call.args) == 6:
        parts = [call.sql(place) for place in range(6)]
        return f"CAST(make_date({', '.join(parts[:3])}) + make_time({', '.join(parts[3:])}) AS TIMESTAMP)"
    if len(call.args) == 2 and call.text(1) is not None:
        return _in_zone("TIMESTAMP").format(call.sql(0), call.sql(1))
    if len(call.args) == 2:
        return f"(CAST({call.sql(0)} AS DATE) + CAST({call.sql(1)} AS TIME))"
    if len(call.args) != 1:
        call.refuse("write DATETIME(value), DATETIME(date, time) or DATETIME(2024, 3, 15, 10, 30, 0)")
    return f"CAST({call.sql(0)} AS TIMESTAMP)"


def zoned_text(call: Call) -> str:
    """Write STRING(time, zone), whose text ends with the offset of the zone."""
    time = IN_MICROSECONDS.format(call.sql(0))
    return f"regexp_replace({WRITTEN_TIME}({time}, '%Y-%m-%d %H:%M:%E*S%Ez', {call.sql(1)}), ':00$', '')"


def _day_or_time(kind: str, *parts: str) -> Rule:
    """Return a rule for the day or the time of an instant, in UTC or in a zone, and for one made of its parts."""
    made = form(
        _in_zone(kind),
        f"make_{kind.lower()}({{0}}, {{1}}, {{2}})",
        advice=f"write {kind}(value) or {kind}({', '.join(parts)})",
    )
    return lambda call: f"CAST({_instant(call, 0)} AS {kind})" if len(call.args) == 1 else made(call)


TIMES: Final[Table] = {
    "DATE": _day_or_time("DATE", "year", "month", "day"),
    "DATETIME": _datetime,
    "TIMESTAMP": _timestamp,
    "TIME": _day_or_time("TIME", "hour", "minute", "second"),
    **dict.fromkeys(("DATE_DIFF", "DATETIME_DIFF"), _difference),
    "TIMESTAMP_DIFF": _elapsed,
    "TIME_DIFF": _between_times,
    "TIME_TRUNC": _truncated_time,
    **dict.fromkeys(("DATE_TRUNC", "DATETIME_TRUNC", "TIMESTAMP_TRUNC"), _truncated),
    "LAST_DAY": _last_day,
    **{f"FORMAT_{kind}": _written_time(kind) for kind in ("DATE", "DATETIME", "TIMESTAMP", "TIME")},
    **{
        f"{prefix}PARSE_{kind}": _read_time(kind, safe=bool(prefix))
        for kind in ("DATE", "DATETIME", "TIMESTAMP", "TIME")
        for prefix in ("", "SAFE.")
    },
}
"""How each function over times is written."""
