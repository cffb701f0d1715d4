"""Write the functions of Spark and Databricks over times."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from flightllm.dialect.generator.calls import Call, Rule, Table, form
from flightllm.dialect.generator.forms import unit
from flightllm.dialect.java_formats import to_read, to_write
from flightllm.functions.percent_times import IN_MICROSECONDS
from flightllm.sql.literals import text_literal
from flightllm.sql.passes.spark_values import AS_TIME, SERIES

_MICROS: Final = {"week": 604_800_000_000, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000}
_MICROS_OF: Final = {**_MICROS, "second": 1_000_000, "millisecond": 1_000, "microsecond": 1}
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_USUAL: Final = "yyyy-MM-dd HH:mm:ss"


def _time(text: str) -> str:
    return f"CAST({text} AS TIMESTAMP)"


def _micros(text: str) -> str:
    return f"CAST(CAST({text} AS TIMESTAMP(6)) AS BIGINT)"


def _per(units: int) -> Rule:
    """Return a rule that writes a time as so many units a second since 1970."""
    return form(f"CAST(floor({_micros('{0}')} / {1_000_000 // units}.0) AS BIGINT)")


def elapsed(call: Call) -> str:
    """Write DATEDIFF(unit, since, until), the number of whole units between two times."""
    if len(call.args) == 2:
        return f"(CAST({call.sql(0)} AS DATE) - CAST({call.sql(1)} AS DATE))"
    name, since, until = unit(call, 0), call.sql(1), call.sql(2)
    if name in _MICROS_OF:
        return f"(({_micros(until)} - {_micros(since)}) / {_MICROS_OF[name]})"
    if name not in _MONTHS:
        call.refuse(f"write {call.name.lower()}(microsecond, a, b) * 1000, since times have no nanoseconds")
    since, until = _time(since), _time(until)
    months = " + ".join(
        f"{count} * CAST(date_part('{part}', {until}) - date_part('{part}', {since}) AS BIGINT)"
        for part, count in (("year", 12), ("month", 1))
    )
    rests = [f"({day} - date_trunc('month', {day}))" for day in (until, since)]
    more = (
        f"(CASE WHEN {months} > 0 AND {rests[0]} < {rests[1]} THEN -1"
        f" WHEN {months} < 0 AND {rests[0]} > {rests[1]} THEN 1 ELSE 0 END)"
    )
    return f"(({months} + {more}) / {_MONTHS[name]})"


def _format(call: Call, place: int) -> str:
    written = call.text(place)
    if written is None:
        call.refuse(f"its format must be a text literal: write {call.name.lower()}(time, 'yyyy-MM-dd')")
    return written


def formatted(time: str, letters: str) -> str:
    """Return the text of a time by a format of Java."""
    return f"to_char({time}, {text_literal(to_write(letters))})"


def _written(call: Call) -> str:
    if len(call.args) != 2:
        call.refuse("write date_format(time, 'yyyy-MM-dd')")
    return formatted(IN_MICROSECONDS.format(call.sql(0)), _format(call, 1))


def _of_seconds(call: Call) -> str:
    letters = _format(call, 1) if len(call.args) > 1 else _USUAL
    return formatted(_time(f"to_timestamp_seconds({call.sql(0)})"), letters)


def _read(call: Call) -> str:
    """Return the time that a text shows in a format."""
    letters, more = to_read(_format(call, 1))
    text = f"{call.sql(0)} || {text_literal(more)}" if more else call.sql(0)
    return f"CAST(to_timestamp({text}, {text_literal(letters)}) AS TIMESTAMP)"


def _reader(type_: str) -> Rule:
    """Return a rule that reads a text, with a format or without, as a value of a type."""

    def rule(call: Call) -> str:
        if len(call.args) > 1:
            return f"CAST({_read(call)} AS {type_})"
        return f"CAST({call.sql(0) if type_ == 'DATE' else f'{AS_TIME}({call.sql(0)})'} AS {type_})"

    return rule


def _unix(call: Call) -> str:
    if not call.args:
        return "CAST(floor(date_part('epoch', now())) AS BIGINT)"
    text = _read(call) if len(call.args) > 1 else _time(call.sql(0))
    return f"CAST(floor({_micros(text)} / 1000000.0) AS BIGINT)"


def _zoned(write: Callable[[str, str], str]) -> Rule:
    """Return a rule for a time and a zone, which must be a literal."""

    def rule(call: Call) -> str:
        zone = call.text(len(call.args) - 1) if call.name != "CONVERT_TIMEZONE" else call.text(0)
        if zone is None or len(call.args) != 2:
            call.refuse(f"write it with a time and a zone as a text literal: {call.name.lower()}(time, 'Europe/Paris')")
        time = call.sql(1 if call.name == "CONVERT_TIMEZONE" else 0)
        return write(_time(time), zone_of(zone))

    return rule


def zone_of(zone: str) -> str:
    """Return a zone as a literal; the sign of an offset is the other one in AT TIME ZONE."""
    if zone[:1] in {"+", "-"}:
        zone = f"{'-' if zone[0] == '+' else '+'}{zone[1:]}"
    return text_literal({"Z": "UTC"}.get(zone, zone))


def _to_zone(time: str, zone: str) -> str:
    return f"(CAST({time} AS TIMESTAMP WITH TIME ZONE) AT TIME ZONE {zone})"


def _from_zone(time: str, zone: str) -> str:
    return f"CAST(({time} AT TIME ZONE {zone}) AS TIMESTAMP)"


def _converted(call: Call) -> str:
    """Write CONVERT_TIMEZONE(from, to, time), or with the zone of the session without its first argument."""
    zones = [call.text(place) for place in range(len(call.args) - 1)]
    if len(zones) not in {1, 2} or None in zones:
        call.refuse("write convert_timezone('Europe/Paris', 'Asia/Tokyo', time) with zones as text literals")
    names = [zone_of(str(zone)) for zone in zones]
    time = _time(call.sql(len(call.args) - 1))
    return _to_zone(_from_zone(time, names[0]) if len(names) > 1 else time, names[-1])


def _part(call: Call) -> str:
    """Write DATE_PART('dow', time) as EXTRACT does."""
    from sqlglot import exp

    name = call.text(0)
    if name is None or len(call.args) != 2:
        call.refuse("write the part as a text literal: date_part('month', time)")
    return str(call.generator.sql(exp.Extract(this=exp.Var(this=name), expression=call.args[1].copy())))


_MONTHLY: Final = (
    "array_filter(array_transform(range(0, CAST((12 * (date_part('year', {1}) - date_part('year', {0}))"
    " + date_part('month', {1}) - date_part('month', {0})) / %s AS BIGINT) + 1), __i -> {0}"
    " + arrow_cast(concat(CAST(__i * %s AS VARCHAR), ' months'), 'Interval(MonthDayNano)')), __x -> __x %s {1})"
)
"""Times that are each so many months after the first one, whose day they keep where the month has it."""


def _series(call: Call) -> str:
    """Write SEQUENCE(from, to, step); a series by months counts each time from the first one."""
    from sqlglot import exp

    step = call.args[2] if len(call.args) == 3 else None
    step, sign = (step.this, -1) if isinstance(step, exp.Neg) else (step, 1)
    months = 0
    if isinstance(step, exp.Interval) and step.args.get("unit") is not None:
        number = step.this.this if isinstance(step.this, exp.Neg) else step.this
        sign = -sign if isinstance(step.this, exp.Neg) else sign
        unit = str(step.args["unit"].name).lower().removesuffix("s")
        written = str(number.name)
        months = sign * int(written) * _MONTHS.get(unit, 0) if written.lstrip("-").isdecimal() else 0
    if months:
        days = form(_MONTHLY % (months, months, "<=" if months > 0 else ">="))
        return days(replace(call, args=call.args[:2]))
    return form(f"{SERIES}({{0}}, {{1}})", f"{SERIES}({{0}}, {{1}}, {{2}})")(call)


TIMES: Final[Table] = {
    "CONVERT_TIMEZONE": _converted,
    **dict.fromkeys(("DATEDIFF", "DATE_DIFF", "TIMESTAMPDIFF", "TIMEDIFF"), elapsed),
    "DATE_FORMAT": _written,
    **dict.fromkeys(("DATE_PART", "DATEPART"), _part),
    "FROM_UNIXTIME": _of_seconds,
    "FROM_UTC_TIMESTAMP": _zoned(_to_zone),
    "SEQUENCE": _series,
    "TIMESTAMP_MICROS": form("CAST(to_timestamp_micros({0}) AS TIMESTAMP)"),
    "TIMESTAMP_MILLIS": form("CAST(to_timestamp_millis({0}) AS TIMESTAMP)"),
    "TIMESTAMP_SECONDS": form(f"CAST({AS_TIME}({{0}}) AS TIMESTAMP)"),
    "TO_DATE": _reader("DATE"),
    **dict.fromkeys(("TO_TIMESTAMP", "TO_TIMESTAMP_NTZ", "TO_TIMESTAMP_LTZ"), _reader("TIMESTAMP")),
    "TO_UTC_TIMESTAMP": _zoned(_from_zone),
    **dict.fromkeys(("TO_UNIX_TIMESTAMP", "UNIX_TIMESTAMP"), _unix),
    "UNIX_MICROS": _per(1_000_000),
    "UNIX_MILLIS": _per(1_000),
    "UNIX_SECONDS": _per(1),
}
"""Functions of times."""
