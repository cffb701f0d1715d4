"""Rewrite functions that DataFusion has under another name or in another form."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from flightllm.dialect.formats import from_letters, to_parse, to_write
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.arguments import split_arguments
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind, position

_STATEMENTS = (
    *("select", "with", "values", "explain", "insert", "update", "delete", "merge", "from", "create", "summarize"),
    *("describe", "desc"),
)


@dataclass(frozen=True, slots=True)
class DialectCall:
    """One call: its tokens from the name to the closing parenthesis, and the ranges of its arguments."""

    source: Source
    first: int
    closing: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def start(self) -> int:
        """Return where the name begins in the text."""
        return self.source.tokens[self.first].start

    def literal(self, place: int) -> str | None:
        """Return the text of an argument that is a text literal, or None."""
        first, last = self.ranges[place]
        token = self.source.tokens[first]
        return token.text if last == first + 1 and token.kind is TokenKind.STRING else None

    def argument(self, place: int, text: str) -> Edit:
        """Replace an argument by a text."""
        first, last = self.ranges[place]
        return Edit(self.source.tokens[first].start, self.source.tokens[last - 1].end, text)

    def opened(self, text: str) -> Edit:
        """Replace the name and the opening parenthesis by a text."""
        return Edit(self.start, self.source.tokens[self.first + 1].end, text)

    def commas(self, *texts: str) -> Iterator[Edit]:
        """Replace the commas by texts."""
        for (_, last), text in zip(self.ranges, texts, strict=False):
            yield Edit(self.source.tokens[last].start, self.source.tokens[last].end, text)

    def closed(self, text: str) -> Edit:
        """Replace the closing parenthesis by a text."""
        token = self.source.tokens[self.closing]
        return Edit(token.start, token.end, text)

    def replaced(self, text: str) -> Edit:
        """Replace the whole call by a text."""
        return Edit(self.start, self.source.tokens[self.closing].end, text)

    def error(self, message: str) -> SqlError:
        """Return an error with the position of the call."""
        name = self.source.tokens[self.first].text
        return SqlError(f"{name} at {position(self.source.sql, self.start)}: {message}")


def functions(source: Source) -> Iterator[Edit]:
    """Rewrite `iff(a, b, c)` as `(CASE WHEN a THEN b ELSE c END)`, and similar functions.

    Raises:
        SqlError: servers disagree about a call, or its time format is unknown.
    """
    if not (source.is_word(0, *_STATEMENTS) or source.is_symbol(0, "(")):
        return
    for index, token in enumerate(source.tokens):
        word = token.text.lower()
        if word not in _RULES or token.kind is not TokenKind.WORD:
            continue
        if source.called(index) is not None:
            call = read_call(source, index)
            if call is not None:
                yield from _RULES[word](call)
        elif word in _VALUES and _is_value(source, index):
            yield Edit(token.start, token.end, _VALUES[word])


def _is_value(source: Source, index: int) -> bool:
    """Return whether a word is an expression without brackets, and not the name of a table, a column or a function."""
    longer = source.is_symbol(index + 1, "(") or source.is_symbol(index + 1, ".")
    begins = source.begins_expression(index) or (source.is_word(0, "create") and source.is_word(index - 1, "default"))
    return not longer and begins and not source.names_column(index)


def read_call(source: Source, index: int) -> DialectCall | None:
    """Return the call whose name is at a token; None if one of its arguments is empty."""
    closing = source.closing[index + 1]
    ranges = tuple(split_arguments(source.tokens, index + 2, closing, source.closing))
    return DialectCall(source, index, closing, ranges) if all(first < last for first, last in ranges) else None


def wrapped(before: str, after: str = ")", *, arguments: int = 1) -> Callable[[DialectCall], Iterator[Edit]]:
    """Return a rule that writes a call with this number of arguments between two texts."""

    def rule(call: DialectCall) -> Iterator[Edit]:
        if len(call.ranges) == arguments:
            yield call.opened(before)
            yield call.closed(after)

    return rule


def _case(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) == 3:
        yield call.opened("(CASE WHEN ")
        yield from call.commas(" THEN ", " ELSE ")
        yield call.closed(" END)")


def _count_if(call: DialectCall) -> Iterator[Edit]:
    """Write a count of rows under a condition; a FILTER after the call is joined to the condition by AND."""
    source, filtered = call.source, call.closing + 1
    if len(call.ranges) != 1 or source.is_word(call.first + 2, "distinct", "all"):
        return
    if not source.is_word(filtered, "filter"):
        yield call.opened("count(*) FILTER (WHERE ")
    elif source.is_symbol(filtered + 1, "(") and source.is_word(filtered + 2, "where"):
        yield call.opened("count(*) FILTER (WHERE (")
        yield Edit(source.tokens[call.closing].end, source.tokens[filtered + 2].end, " AND (")
        end = source.tokens[source.closing[filtered + 1]].start
        yield Edit(end, end, ")")


def _list(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) == 1:
        yield call.opened("array_agg(")


def _regexp_extract(call: DialectCall) -> Iterator[Edit]:
    """Return a pattern's first match, or one of its groups; an empty text without a match, as in DuckDB and Spark.

    The rewritten pattern matches the whole text, so that each argument is evaluated once.
    """
    if not 2 <= len(call.ranges) <= 3:
        return
    pattern = call.literal(1)
    group = call.source.text(*call.ranges[2]) if len(call.ranges) == 3 else None
    if group is not None and not (group.isdecimal() and len(group) < 3):
        raise call.error("its third argument is the number of a group, as in regexp_extract(text, '(a)(b)', 2)")
    groups = None if pattern is None else _groups(pattern)
    if group is None and groups != 0:
        raise call.error(
            "DuckDB returns the whole match of a pattern with groups, Spark and BigQuery the first group:"
            " write the group as third argument, 0 for the whole match"
        )
    if groups is not None and int(group or 0) > groups:
        raise call.error(f"the pattern has {groups} groups, but the call asks for group {group}")
    yield call.opened("regexp_replace(")
    first, last = call.ranges[1]
    start, end = call.source.tokens[first].start, call.source.tokens[last - 1].end
    yield Edit(start, start, "'^(?s:.*?)(' || (")
    yield Edit(end, end, ") || ')(?s:.*)$|^(?s:.*)$'")
    reference = text_literal(f"\\{int(group or 0) + 1}")
    if group is None:
        yield call.closed(f", {reference})")
    else:
        yield call.argument(2, reference)


def _groups(pattern: str) -> int | None:
    """Return the number of groups in a pattern; None if Python cannot read a pattern that Rust can."""
    try:
        return re.compile(pattern).groups
    except (re.error, RecursionError, OverflowError):
        return None


def _strptime(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) != 2:
        return
    written = call.literal(1)
    if written is None:
        raise call.error("its format must be a text literal, as in strptime(day, '%Y-%m-%d')")
    yield call.opened("CAST(to_timestamp(")
    yield call.argument(1, _formatted(call, to_parse, written))
    yield call.closed(") AS TIMESTAMP(6))")


def _strftime(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) != 2:
        return
    written = call.literal(1)
    if written is None:
        raise call.error("its format must be a text literal after the time, as in strftime(day, '%Y-%m-%d')")
    yield call.opened("to_char(")
    yield call.argument(1, _formatted(call, to_write, written))


def _to_char(call: DialectCall) -> Iterator[Edit]:
    written = call.literal(1) if len(call.ranges) == 2 else None
    if written is not None and "%" not in written and any(map(str.isalpha, written)):
        yield call.argument(1, _formatted(call, from_letters, written))


def _formatted(call: DialectCall, read: Callable[[str], str], written: str) -> str:
    try:
        return text_literal(read(written))
    except ValueError as error:
        raise call.error(f"{error}") from error


def _mod(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) == 2:
        yield call.opened("((")
        yield from call.commas(") % (")
        yield call.closed("))")


def _current_timestamp(call: DialectCall) -> Iterator[Edit]:
    """Write the time with 0, 3 or 6 digits of a second: `date_trunc('millisecond', current_timestamp)` for 3."""
    if not call.ranges:
        return
    yield call.opened(f"date_trunc('{_unit(call)}', ")
    yield call.argument(0, "current_timestamp")


def _localtimestamp(call: DialectCall) -> Iterator[Edit]:
    """Write the time without a zone, with 0, 3 or 6 digits of a second as in `current_timestamp`."""
    if not call.ranges:
        yield call.replaced(_LOCAL)
        return
    yield call.opened(f"date_trunc('{_unit(call)}', ")
    yield call.argument(0, _LOCAL)


def _unit(call: DialectCall) -> str:
    unit = _UNITS.get(call.source.text(*call.ranges[0])) if len(call.ranges) == 1 else None
    if unit is None:
        raise call.error("its argument is the number of digits of a second: write 0, 3 or 6")
    return unit


_LOCAL = "CAST(current_timestamp AS TIMESTAMP)"
_VALUES = {"localtimestamp": _LOCAL}
"""Words that SQL writes without parentheses too, and that DataFusion reads as columns."""
_UNITS = {"0": "second", "3": "millisecond", "6": "microsecond"}
_PARTS = ("year", "quarter", "month", "day", "hour", "minute")
_RULES: Mapping[str, Callable[[DialectCall], Iterator[Edit]]] = {
    **{part: wrapped(f"date_part('{part}', ") for part in _PARTS},
    "second": wrapped("CAST(trunc(date_part('second', ", ")) AS INT)"),
    "dayofmonth": wrapped("date_part('day', "),
    "dayofyear": wrapped("date_part('doy', "),
    "curdate": wrapped("current_date(", arguments=0),
    "current_timestamp": _current_timestamp,
    "localtimestamp": _localtimestamp,
    "curtime": wrapped("current_time(", arguments=0),
    "ucase": wrapped("upper("),
    "lcase": wrapped("lower("),
    "ceiling": wrapped("ceil("),
    "sign": wrapped("signum("),
    "truncate": wrapped("trunc(", arguments=2),
    "mod": _mod,
    "from_hex": wrapped("decode(", ", 'hex')"),
    "iff": _case,
    "if": _case,
    "count_if": _count_if,
    "countif": _count_if,
    "list": _list,
    "regexp_extract": _regexp_extract,
    "strptime": _strptime,
    "strftime": _strftime,
    "to_char": _to_char,
}
NAMES = frozenset(_RULES)
"""The functions that this rule rewrites."""
