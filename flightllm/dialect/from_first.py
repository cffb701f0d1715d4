"""Rewrite queries that begin with FROM, as in DuckDB."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.errors import UnsupportedError
from flightllm.sql.keywords import ENDS_FROM, SET_OPERATIONS
from flightllm.sql.tokens import TokenKind


def from_first(source: Source) -> Iterator[Edit]:
    """Rewrite `FROM t` as `SELECT * FROM t`, and `FROM t SELECT a WHERE b` as `SELECT a FROM t WHERE b`.

    This applies in parentheses too.

    Raises:
        UnsupportedError: parameters without numbers would change their order.
    """
    moved = 0
    for index, token in enumerate(source.tokens):
        if token.is_word("from") and token.start >= moved and _begins(source, index):
            edits = list(_edits(source, index))
            moved = max(edit.end for edit in edits)
            yield from edits


def _begins(source: Source, index: int) -> bool:
    """Return whether a query begins at a token; a list in parentheses, as in `trim(FROM a)`, is not a query."""
    first = index == 0 or (source.is_word(0, "explain") and source.is_word(index - 1, "explain", "analyze", "verbose"))
    first = first or (index < 5 and source.is_word(index - 1, "summarize", "describe", "desc"))
    opened = source.is_symbol(index - 1, "(") and (
        index == 1 or source.is_word(index - 2, "from", "join", "as", "in", "summarize", "describe", "pivot", "unpivot")
    )
    joined = source.is_word(index - 1, *SET_OPERATIONS, "all") and source.is_word(index - 2, *SET_OPERATIONS)
    alone = source.is_word(index - 1, *SET_OPERATIONS) and not source.is_word(index - 2, "distinct")
    return first or opened or joined or alone or _makes(source, index) or follows_with(source, index)


def _makes(source: Source, index: int) -> bool:
    """Return whether the query at a token defines a table or view, or inserts rows."""
    before = range(index)
    if any(source.is_word(at, "select", "values", "with", "from") for at in before):
        return False
    if source.is_word(0, "create"):
        return source.is_word(index - 1, "as")
    return source.is_word(0, "insert") and source.is_word(1, "into") and index > 2


def follows_with(source: Source, index: int) -> bool:
    """Return whether a token follows the queries of a WITH, with no SELECT in between."""
    if not source.is_symbol(index - 1, ")"):
        return False
    at = source.start_of_query(index)
    while source.is_word(at, "explain", "analyze", "verbose", "summarize", "describe"):
        at += 1
    if not source.is_word(at, "with"):
        return False
    while at < index:
        if source.is_word(at, "select", "values", "from", "insert", "update", "delete", "merge"):
            return False
        at = source.closing.get(at, at) + 1
    return True


def _edits(source: Source, index: int) -> Iterator[Edit]:
    start, end = source.tokens[index].start, source.end_of_query(index)
    select = after = None
    at = index + 1
    while at < end:
        if source.is_word(at, *SET_OPERATIONS) or source.is_symbol(at, "|>"):
            break
        if source.is_word(at, "select") and select is None:
            select = at
        elif select is not None and after is None and source.is_word(at, *ENDS_FROM):
            after = at
        at = source.closing.get(at, at) + 1
    if select is None:
        yield Edit(start, start, "SELECT * ")
        return
    last = source.tokens[(after if after is not None else at) - 1].end
    if any(token.kind is TokenKind.PLACEHOLDER and token.text == "?" for token in source.tokens[index:at]):
        raise UnsupportedError("FROM before SELECT changes the order of parameters: write $1, $2 in place of ?")
    yield Edit(start, start, f"{source.sql[source.tokens[select].start : last]} ")
    yield Edit(source.tokens[select].start, last, "")
