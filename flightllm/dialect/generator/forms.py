"""Rules that several dialects share: parts of times, parts of texts and patterns."""

import re
from typing import Any, Final

from flightllm.common.names import ADD_UNITS, BIGQUERY_JOINED, IN_UTC, SNOWFLAKE_JOINED, TRUNCATE_UNIT, VALUE_TEXT
from flightllm.dialect.generator.calls import Call, Rule, form, is_random
from flightllm.functions.text_parts import ALL_MATCHES
from flightllm.functions.text_places import PART_OF_TEXT
from flightllm.sql.literals import text_literal

_UNITS: Final = {
    **dict.fromkeys(("year", "y", "yy", "yyy", "yyyy", "yr", "years", "yrs"), "year"),
    **dict.fromkeys(("quarter", "q", "qtr", "qtrs", "quarters"), "quarter"),
    **dict.fromkeys(("month", "mm", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "wk", "weekofyear", "woy", "wy", "weeks", "week_iso", "isoweek"), "week"),
    **dict.fromkeys(("day", "d", "dd", "days", "dayofmonth"), "day"),
    **dict.fromkeys(("hour", "h", "hh", "hr", "hours", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "mi", "min", "minutes", "mins"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "second"),
    **dict.fromkeys(("millisecond", "ms", "msec", "milliseconds"), "millisecond"),
    **dict.fromkeys(("microsecond", "us", "usec", "microseconds"), "microsecond"),
    **dict.fromkeys(("nanosecond", "ns", "nsec", "nanosec", "nanoseconds"), "nanosecond"),
}
"""The units of times by the words of the dialects."""
_OWN_TEXTS: Final = ("bigquery", "databricks", "duckdb", "snowflake", "spark")
"""Dialects that write the texts of times and doubles in another way than PostgreSQL."""
LENGTHS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_LEAST: Final = 2**31 - 1
"""The length of a part of a text that reaches to the end."""


def unit(call: Call, place: int) -> str:
    """Return the unit that an argument names.

    Raises:
        UnsupportedError: the unit is unknown.
    """
    written = (call.literal(place) or "").lower()
    found = _UNITS.get(written)
    if found is None:
        call.refuse(f"the unit {written or 'of the call'!r} is unknown: write one of {', '.join(LENGTHS)}")
    return found


def added(call: Call, name: str, count: str, time: str) -> str:
    """Return the text of a time plus a number of units; its last argument lets the passes over intervals run."""
    if name not in LENGTHS:
        call.refuse(f"it adds the units {', '.join(LENGTHS)}: write one of them")
    return f"{ADD_UNITS}('{name}', {count}, {time}, INTERVAL '1 {name}')"


def truncated(name: str, time: str) -> str:
    """Return the text of the begin of a unit."""
    return f"{TRUNCATE_UNIT}('{name}', {time})"


def in_utc(value: Any, text: str) -> str:
    """Return the text of a value, whose parts are those in UTC: a time of BigQuery is an instant without a zone."""
    from sqlglot import exp

    return text if isinstance(value, exp.Literal | exp.Cast | exp.AtTimeZone) else f"{IN_UTC}({text})"


def own_cast(generator: Any, cast: Any, safe: str) -> str | None:
    """Return the text of a cast to a text without a length, or of BigQuery's cast to a day or a time of day.

    It is None for another cast.
    """
    from sqlglot import exp

    kind, dialect = cast.to.this, generator.read_from
    if kind in exp.DataType.TEXT_TYPES and not cast.to.expressions and dialect in _OWN_TEXTS:
        return text_of(generator.sql(cast, "this"), dialect)
    if kind in {exp.DType.DATE, exp.DType.TIME} and dialect == "bigquery":
        return f"{safe}CAST({in_utc(cast.this, generator.sql(cast, 'this'))} AS {generator.sql(cast, 'to')})"
    return None


def part(name: str) -> Rule:
    """Return a rule that writes a part of a time as a whole number."""
    return form(f"CAST(date_part('{name}', {{0}}) AS BIGINT)")


_JOINED: Final = {"snowflake": SNOWFLAKE_JOINED, "bigquery": BIGQUERY_JOINED}
"""The styles of the values that a dialect joins to a text."""


def as_operand(generator: Any, value: Any, text: str) -> str:
    """Return an operand of a join of texts, but not in a prompt.

    A time or a double becomes its text in Snowflake. A time is an error in BigQuery.
    """
    from sqlglot import exp

    inner = value.unnest() if isinstance(value, exp.Paren) else value
    plain = isinstance(inner, exp.Literal | exp.DPipe | exp.Array | exp.Null)
    is_part = plain or value.find_ancestor(exp.Anonymous) is not None or generator.read_from not in _JOINED
    return text if is_part else text_of(text, _JOINED[generator.read_from])


def text_of(value: str, dialect: str) -> str:
    """Return the text of a value as a dialect writes it."""
    return f"{VALUE_TEXT}({value}, '{dialect}')"


def substring(call: Call) -> str:
    """Write a part of a text from a start that can be negative."""
    if not 2 <= len(call.args) <= 3:
        call.refuse("write substring(text, start, length)")
    start = call.number(1)
    least = 1 if call.dialect == "duckdb" and len(call.args) == 3 else 0
    if start is not None and start >= least and (len(call.args) == 2 or (call.number(2) or -1) >= 0):
        rest = f", {call.sql(2)}" if len(call.args) == 3 else ""
        return f"substr({call.sql(0)}, {max(start, 1)}{rest})"
    length = call.sql(2) if len(call.args) == 3 else str(_LEAST)
    style = "spark" if call.dialect == "databricks" else call.dialect
    return f"{PART_OF_TEXT}({call.sql(0)}, {call.sql(1)}, {length}, '{style}')"


def groups_of(pattern: str | None) -> int | None:
    """Return the number of groups in a pattern; None for no literal, or one that Python cannot read."""
    if pattern is None:
        return None
    try:
        return re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError):
        return None


def match(
    call: Call, text: str, *, start: int = 1, occurrence: int = 1, flags: str = "", group: int | None = None
) -> str:
    """Write the n-th match of a pattern, which is argument 1; NULL without a match.

    Without a group it is the first group of a pattern that has groups, and else the whole match.
    """
    pattern, groups = call.sql(1), groups_of(call.text(1))
    if start < 1 or occurrence < 1:
        call.refuse("the position and the occurrence are numbers from 1")
    if group is not None and groups is not None and group > groups:
        call.refuse(f"the pattern has {groups} groups, and the call asks for group {group}")
    if start > 1:
        text = f"substr({text}, {start})"
    if occurrence > 1:
        if group is None and groups is None:
            call.refuse("write the pattern as a text literal")
        chosen = min(groups or 0, 1) if group is None else group
        marked = f"'(?{flags})' || {pattern}" if flags else pattern
        return f"array_element({ALL_MATCHES}({text}, {marked}, {chosen}), {occurrence})"
    if group is None:
        return f"array_element(regexp_match({text}, {pattern}{_flags(flags)}), 1)"
    enclosed = text_literal(f"({call.text(1)})") if call.text(1) is not None else f"'(' || {pattern} || ')'"
    return f"array_element(regexp_match({text}, {enclosed}{_flags(flags)}), {group + 1})"


def _flags(flags: str) -> str:
    return f", '{flags}'" if flags else ""


def flags_of(call: Call, place: int) -> str:
    """Return the flags of a pattern among `i`, `m` and `s`; `c` and `e` change nothing here.

    Raises:
        UnsupportedError: a flag is unknown, or the flags are not a literal.
    """
    if len(call.args) <= place:
        return ""
    written = call.text(place)
    if written is None or set(written) - set("cimse"):
        call.refuse("write the flags as a text literal with letters among c, i, m, s and e")
    last = [letter for letter in written if letter in "ci"][-1:]
    return "".join(letter for letter in "ims" if (letter in written if letter != "i" else last == ["i"]))


def matches_whole(call: Call) -> str:
    """Write a test whether a pattern matches the whole text."""
    flags = flags_of(call, 2)
    return f"regexp_like({call.sql(0)}, '^(?:' || {call.sql(1)} || ')$'{_flags(flags)})"


def known(text: str) -> Rule:
    """Return a rule for a text of all arguments that is NULL if one of them is NULL: `{*}` are the arguments.

    A random call is never NULL, and stands only once in the text.
    """

    def rule(call: Call) -> str:
        args = [call.sql(place) for place in range(len(call.args))]
        if not args:
            call.refuse("write it with arguments")
        written = text.replace("{*}", ", ".join(args))
        nulls = [f"{one} IS NULL" for one, value in zip(args, call.args, strict=True) if not is_random(value)]
        return f"(CASE WHEN {' OR '.join(nulls)} THEN NULL ELSE {written} END)" if nulls else f"({written})"

    return rule


def joined(call: Call) -> str:
    """Write a text of all arguments that is NULL if one of them is NULL."""
    own = call.dialect in _JOINED
    args = [as_operand(call.generator, one, call.written(one)) if own else call.written(one) for one in call.args]
    return f"({' || '.join(args)})" if len(args) > 1 else f"CAST({args[0]} AS VARCHAR)"
