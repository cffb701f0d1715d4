"""Views with AI calls: their plans cannot be stored, so queries include their text."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from flightllm.catalog.entries import Entry, view_text
from flightllm.catalog.reading import ordered, read_by
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName, quoted
from flightllm.errors import UnsupportedError
from flightllm.sql.names import identifier, with_name
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import Token, tokenize


def with_views(text: ParsedText, views: Mapping[TableName, Entry], entries: Mapping[TableName, Entry]) -> ParsedText:
    """Return the query with a WITH query before it for each AI view that it names, directly or indirectly.

    A text that names no AI view comes back as the same object. A WITH query of the same name in it hides the view.

    Raises:
        SqlError: some views read each other.
        UnsupportedError: an inner WITH query, in the text or in a view, has the name of a view that the query needs.
    """
    tokens = text.tokens
    hidden = set(_outer_with_names(tokens))
    needed: dict[str, Entry] = {}
    for name in _mentioned(tokens, views):
        if name.name not in hidden:
            needed |= {view.name.name: view for view in ordered(views[name], partial(mentioned, views=views))}
    if not needed:
        return text
    _check_names(tokens, hidden | set(needed))
    definitions = ", ".join(_definition(entry, views, entries) for entry in needed.values())
    return ParsedText(_with(_unqualified(text.sql, tokens, views), definitions))


def mentioned(entry: Entry, views: Mapping[TableName, Entry]) -> list[Entry]:
    """Return the other AI views that a view mentions."""
    return [views[name] for name in _mentioned(tokenize(entry.query), views) if name != entry.name]


def _mentioned(tokens: Sequence[Token], views: Mapping[TableName, Entry]) -> Iterator[TableName]:
    for _, stop in _names(tokens, views):
        yield TableName(DEFAULT_SCHEMA, identifier(tokens[stop - 1]) or "")


def _names(tokens: Sequence[Token], views: Mapping[TableName, Entry]) -> Iterator[tuple[int, int]]:
    """Yield the token range of every name that can mean a view: `v`, `public.v` or `flightllm.public.v`."""
    for index, token in enumerate(tokens):
        name = identifier(token)
        if name is None or TableName(DEFAULT_SCHEMA, name) not in views:
            continue
        start = index
        for qualifier in (DEFAULT_SCHEMA, CATALOG):
            if start < 2 or not tokens[start - 1].is_symbol("."):
                break
            if identifier(tokens[start - 2]) != qualifier:
                start = -1
                break
            start -= 2
        if start >= 0 and not (start and tokens[start - 1].is_symbol(".")):
            yield start, index + 1


def _unqualified(sql: str, tokens: Sequence[Token], views: Mapping[TableName, Entry]) -> str:
    """Write `v` for `public.v`: a WITH query has no schema."""
    for start, stop in reversed(list(_names(tokens, views))):
        sql = sql[: tokens[start].start] + sql[tokens[stop - 1].start :]
    return sql


def _definition(entry: Entry, views: Mapping[TableName, Entry], entries: Mapping[TableName, Entry]) -> str:
    columns = f" ({', '.join(quoted(column) for column in entry.columns)})" if entry.columns else ""
    others = {name: other for name, other in views.items() if name != entry.name}
    text = view_text(entry, entries)
    return f"{quoted(entry.name.name)}{columns} AS ({_unqualified(text, tokenize(text), others)})"


def _with(sql: str, definitions: str) -> str:
    tokens = tokenize(sql)
    if not tokens or not tokens[0].is_word("with"):
        return f"WITH {definitions} {sql}"
    recursive = len(tokens) > 1 and tokens[1].is_word("recursive")
    after = tokens[1 if recursive else 0].end
    return f"{sql[:after]} {definitions},{sql[after:]}"


def _with_names(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Yield the depth and name of every WITH query in the text."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            name = with_name(tokens, index)
            if name is not None:
                yield depth, name
        depth += token.is_symbol("(") - token.is_symbol(")")


def _outer_with_names(tokens: Sequence[Token]) -> list[str]:
    if not tokens or not tokens[0].is_word("with"):
        return []
    return [name for depth, name in _with_names(tokens) if depth == 0]


def _check_names(tokens: Sequence[Token], needed: set[str]) -> None:
    for depth, name in _with_names(tokens):
        if depth and name in needed:
            raise UnsupportedError(f"the inner WITH query {name!r} has the name of an AI view in use: rename it")


def check_not_circular(view: Entry, entries: Mapping[TableName, Entry]) -> None:
    """Check that a new view does not read itself directly or indirectly; a view with AI calls must not mention itself.

    Raises:
        SqlError: the view reads or mentions itself.
    """
    after = {**entries, view.name: view}
    kept = {name: entry for name, entry in after.items() if entry.kind == "ai_view"}

    def below(entry: Entry) -> list[Entry]:
        read = [found for name in read_by(entry).tables if (found := after.get(name)) and found.query]
        return [*read, *mentioned(entry, kept)] if entry.kind == "ai_view" else read

    ordered(view, below)
