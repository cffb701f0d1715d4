"""Write PostgreSQL's functions that make rows of the matches of a pattern."""

from collections.abc import Iterator

from flightllm.dialect.functions import DialectCall, read_call
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.functions.text_parts import MATCH_ROWS, SPLIT_BY_PATTERN
from flightllm.sql.tokens import TokenKind

_SPLIT, _MATCHES = "regexp_split_to_table", "regexp_matches"
NAMES = frozenset({_SPLIT, _MATCHES})


def pattern_rows(source: Source) -> Iterator[Edit]:
    """Rewrite `FROM regexp_matches(a, b, 'g') m` as `FROM unnest(…) m`, and `regexp_split_to_table` likewise.

    Outside FROM, `regexp_matches` of two values is DuckDB's function, which returns a truth value.

    Raises:
        SqlError: the flags are not a literal with the letters g and i.
    """
    for index, token in enumerate(source.tokens):
        word = token.text.lower()
        called = word in NAMES and token.kind is TokenKind.WORD and source.is_symbol(index + 1, "(")
        known = called and index + 1 in source.closing and word not in source.place.own_functions
        call = read_call(source, index) if known else None
        if call is None:
            continue
        if word == _SPLIT and len(call.ranges) == 2:
            yield call.opened(f"unnest({SPLIT_BY_PATTERN}(")
            yield call.closed("))")
        elif word == _MATCHES and (source.scopes.names_table[index] or len(call.ranges) == 3):
            yield from _matches(call)


def _matches(call: DialectCall) -> Iterator[Edit]:
    flags = call.literal(2) if len(call.ranges) == 3 else ""
    if flags is None or set(flags) - set("gi"):
        raise call.error("its flags must be a text literal with the letters g and i, as in 'g'")
    if not 2 <= len(call.ranges) <= 3:
        return
    every = "true" if "g" in flags else "false"
    yield call.opened(f"unnest({MATCH_ROWS}(")
    if "i" in flags:
        yield from call.commas(", '(?i)' || ")
    if len(call.ranges) == 3:
        yield call.argument(2, every)
        yield call.closed("))")
    else:
        yield call.closed(f", {every}))")
