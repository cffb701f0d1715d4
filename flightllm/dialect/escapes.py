"""Rewrite the escapes of ODBC and JDBC, which put functions, joins and literals of every server in braces."""

from collections.abc import Callable, Iterator, Mapping

from flightllm.dialect.functions import DialectCall, read_call, wrapped
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.tokens import TokenKind, position

WORDS = frozenset(("fn", "oj", "escape", "guid"))
"""The words after `{` that this rule knows; DataFusion itself reads `{d '…'}`, `{t '…'}` and `{ts '…'}`."""
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("char", "varchar", "longvarchar", "wchar", "wvarchar", "wlongvarchar", "guid"), "VARCHAR"),
    **dict.fromkeys(("decimal", "numeric"), "DECIMAL(38, 10)"),
    **dict.fromkeys(("float", "double"), "DOUBLE"),
    **dict.fromkeys(("binary", "varbinary", "longvarbinary"), "BYTEA"),
    **dict.fromkeys(("date", "type_date"), "DATE"),
    **dict.fromkeys(("time", "type_time"), "TIME"),
    **dict.fromkeys(("timestamp", "type_timestamp"), "TIMESTAMP"),
    "bit": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "real": "REAL",
}
"""The SQL type for each type name of ODBC, without `SQL_`."""
_UNITS: Mapping[str, str] = {
    "second": "|| ' seconds'",
    "minute": "|| ' minutes'",
    "hour": "|| ' hours'",
    "day": "|| ' days'",
    "week": "|| ' weeks'",
    "month": "|| ' months'",
    "quarter": "* 3 || ' months'",
    "year": "|| ' years'",
}
"""For each unit of ODBC, without `SQL_TSI_`: the SQL after a number that makes it an interval."""


def escapes(source: Source) -> Iterator[Edit]:
    """Rewrite `{fn LOCATE('a', s)}` as `position(('a') IN (s))`, and `{oj a LEFT JOIN b ON …}` as the join.

    Raises:
        SqlError: a type or a unit of time in an escape is unknown, or INSERT would change the order of parameters.
    """
    tokens = source.tokens
    for index, token in enumerate(tokens[:-2]):
        if not (token.is_symbol("{") and index in source.closing and tokens[index + 1].is_word(*WORDS)):
            continue
        if tokens[index + 2].is_symbol(":"):  # a field of a struct
            continue
        closing = tokens[source.closing[index]]
        word = "ESCAPE " if tokens[index + 1].is_word("escape") else " "
        yield Edit(token.start, tokens[index + 2].start, word)
        yield Edit(closing.start, closing.end, " ")
        rule = _FUNCTIONS.get(tokens[index + 2].text.lower()) if tokens[index + 1].is_word("fn") else None
        if rule is not None and source.is_symbol(index + 3, "(") and index + 3 in source.closing:
            call = read_call(source, index + 2)
            yield from rule(call) if call is not None else ()


def _locate(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) == 2:
        yield call.opened("position((")
        yield from call.commas(") IN (")
        yield call.closed("))")


def _insert(call: DialectCall) -> Iterator[Edit]:
    """Write the new text, the last argument, as the second one."""
    if len(call.ranges) != 4:
        return
    tokens, (_, place, length, new) = call.source.tokens, call.ranges
    parameters = [any(t.kind is TokenKind.PLACEHOLDER for t in tokens[a:b]) for a, b in (place, length, new)]
    if parameters[2] and any(parameters[:2]):
        raise call.error("its parameters would change their order: write overlay(text, new, start, length)")
    yield call.opened("overlay(")
    start = tokens[place[0]].start
    yield Edit(start, start, f"{call.source.text(*new)}, ")
    yield Edit(tokens[length[1] - 1].end, tokens[new[1] - 1].end, "")


def _convert(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) == 2:
        yield call.opened("CAST(")
        yield from call.commas(" AS ")
        yield call.argument(1, _known(call, 1, _TYPES, "sql_"))


def _timestampadd(call: DialectCall) -> Iterator[Edit]:
    if len(call.ranges) == 3:
        unit = _known(call, 0, _UNITS, "sql_tsi_")
        yield Edit(call.start, call.source.tokens[call.ranges[0][1]].end, "(CAST((")
        yield from list(call.commas("", f") {unit} AS INTERVAL) + ("))[1:]
        yield call.closed("))")


def _known(call: DialectCall, place: int, known: Mapping[str, str], prefix: str) -> str:
    """Return the text for an argument that names a type or a unit."""
    first, last = call.ranges[place]
    name = call.source.text(first, last)
    found = known.get(name.lower().removeprefix(prefix))
    if found is None:
        at = position(call.source.sql, call.source.tokens[first].start)
        names = ", ".join(f"{prefix}{one}".upper() for one in known)
        raise SqlError(f"{name[:40]} at {at} is unknown: write one of {names}")
    return found


_FUNCTIONS: Mapping[str, Callable[[DialectCall], Iterator[Edit]]] = {
    "char": wrapped("chr("),
    "convert": _convert,
    "database": wrapped("current_database(", arguments=0),
    "dayname": wrapped("to_char(", ", '%A')"),
    "dayofweek": wrapped("(date_part('dow', ", ") + 1)"),
    "insert": _insert,
    "locate": _locate,
    "log": wrapped("ln("),
    "monthname": wrapped("to_char(", ", '%B')"),
    "space": wrapped("repeat(' ', "),
    "timestampadd": _timestampadd,
    "week": wrapped("date_part('week', "),
}
"""Functions that only escapes rewrite: other servers have some of these names with another meaning."""
NAMES = frozenset(_FUNCTIONS)
"""The names of these functions."""
