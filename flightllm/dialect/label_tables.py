"""Write the tables of labels in FIT ON and `labels =>` so that later rules and the planner find them."""

from collections.abc import Iterator

from flightllm.common.names import CATALOG, quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import SqlError
from flightllm.sql.literals import text_literal
from flightllm.sql.names import PEOPLES_LABELS, read_parts
from flightllm.sql.tokens import TokenKind, tokenize


def label_tables(source: Source) -> Iterator[Edit]:
    """Rewrite `FIT ON t` as `FIT ON (SELECT * FROM t)`, and `labels => 't'` with the schema of a session's table."""
    tokens = range(len(source.tokens) if source.is_word(0, "explain") else 1)
    first = next((index for index in tokens if source.is_word(index, "create")), None)
    fits = first is not None and (source.is_word(first + 1, "filter") or source.is_word(first + 3, "filter"))
    for index in range(len(source.tokens)):
        if fits and source.is_word(index, "fit") and source.is_word(index + 1, "on"):
            yield from _table(source, index + 2)
        if not source.place.usual and source.is_word(index, "labels") and source.is_symbol(index + 1, "=>"):
            yield from _text(source, index + 2)


def _table(source: Source, index: int) -> Iterator[Edit]:
    try:
        parts, after = read_parts(source.tokens, index)
    except SqlError:  # the parser says what is wrong
        return
    if parts and ".".join(parts) != PEOPLES_LABELS:
        name = source.text(index, after)
        yield Edit(source.tokens[index].start, source.tokens[after - 1].end, f"(SELECT * FROM {name})")


def _text(source: Source, index: int) -> Iterator[Edit]:
    """Yield the name of a table in a text, with the schema in which the session finds it."""
    if index >= len(source.tokens) or source.tokens[index].kind is not TokenKind.STRING:
        return
    token = source.tokens[index]
    try:
        parts, _ = read_parts(tokenize(token.text), 0)
    except SqlError:
        return
    if len(parts) == 1 and source.place.is_table(found := source.place.found(parts[0])):
        name = ".".join(map(quoted, (CATALOG, found.schema, found.name)))
        yield Edit(token.start, token.end, text_literal(name))
