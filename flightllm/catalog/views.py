"""Views: those with AI calls, whose plans cannot be stored, go as text into queries; plain ones by what they read."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from flightllm.catalog.entries import Entry
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.names import (
    CATALOG,
    DEFAULT_SCHEMA,
    TableName,
    identifier,
    quoted,
    read_parts,
    table_name,
    with_name,
)
from flightllm.sql.tokens import Token, tokenize


def inline_views(sql: str, views: Mapping[TableName, Entry]) -> str:
    """Return the query with every AI view it names, directly or through another, put before it as a WITH query.

    Text that names none is returned as it is. A WITH query of the same name in `sql` itself hides the view.

    Raises:
        UnsupportedError: a WITH query inside the text or inside a view is named like a view that is needed.
    """
    if not views:
        return sql
    tokens = tokenize(sql)
    hidden = set(_outer_with_names(tokens))
    needed: dict[str, Entry] = {}
    for name in _mentioned(tokens, views):
        if name.name not in hidden:
            _need(views[name], views, needed)
    if not needed:
        return sql
    _check_names(tokens, hidden | set(needed))
    definitions = ", ".join(_definition(entry, views) for entry in needed.values())
    return _with(_unqualified(sql, tokens, views), definitions)


def _need(entry: Entry, views: Mapping[TableName, Entry], needed: dict[str, Entry]) -> None:
    if entry.name.name in needed:
        return
    for name in _mentioned(tokenize(entry.query), views):
        if name != entry.name:
            _need(views[name], views, needed)
    needed[entry.name.name] = entry


def _mentioned(tokens: Sequence[Token], views: Mapping[TableName, Entry]) -> Iterator[TableName]:
    for _, stop in _names(tokens, views):
        yield TableName(DEFAULT_SCHEMA, identifier(tokens[stop - 1]) or "")


def _names(tokens: Sequence[Token], views: Mapping[TableName, Entry]) -> Iterator[tuple[int, int]]:
    """Yield the token range of every name that may mean a view: `v`, `public.v` or `flightllm.public.v`."""
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


def _definition(entry: Entry, views: Mapping[TableName, Entry]) -> str:
    columns = f" ({', '.join(quoted(column) for column in entry.columns)})" if entry.columns else ""
    others = {name: other for name, other in views.items() if name != entry.name}
    return f"{quoted(entry.name.name)}{columns} AS ({_unqualified(entry.query, tokenize(entry.query), others)})"


def _with(sql: str, definitions: str) -> str:
    tokens = tokenize(sql)
    if not tokens or not tokens[0].is_word("with"):
        return f"WITH {definitions} {sql}"
    recursive = len(tokens) > 1 and tokens[1].is_word("recursive")
    after = tokens[1 if recursive else 0].end
    return f"{sql[:after]} {definitions},{sql[after:]}"


def _with_names(tokens: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Yield depth and name of every WITH query the text defines."""
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


def readers_of(tables: Collection[TableName], entries: Mapping[TableName, Entry]) -> set[TableName]:
    """Return the plain views among `tables` and those that may read them, by themselves or through other views.

    Any mention of a name in a view's text counts, so these may be too many. Views of system tables are always among
    them: their plans hold rows of the time when they were made.
    """
    found = {name for name in tables if name in entries and entries[name].kind == "view"}
    texts = {name: e.query.replace('""', '"').lower() for name, e in entries.items() if e.kind == "view"}
    wanted = {"system", *(name.name.lower() for name in tables)}
    while wanted:
        more = {name for name, text in texts.items() if name not in found and any(word in text for word in wanted)}
        found |= more
        wanted = {name.name.lower() for name in more}
    return found


def check_not_itself(name: TableName, query: str) -> None:
    """Check that a view's query does not read the view itself.

    Raises:
        SqlError: it does.
    """
    tokens = tokenize(query)
    for index, token in enumerate(tokens):
        if token.is_word("from", "join"):
            parts, _ = read_parts(tokens, index + 1)
            if parts and parts[-1] == name.name and table_name(parts) == name:
                raise SqlError(f"the view {name.display!r} cannot read from itself")
