"""Views with AI calls: their plans cannot be stored, so queries include their text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flightllm.catalog.entries import Entry, view_text
from flightllm.catalog.reading import ordered, read_by
from flightllm.common.names import CATALOG, DEFAULT_SCHEMA, TableName, quoted
from flightllm.errors import UnsupportedError
from flightllm.sql.names import identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import tokenize


@dataclass(frozen=True, slots=True)
class _Mention:
    """A name in a text that can mean an AI view: its tokens from `start` to before `stop`."""

    start: int
    stop: int
    name: TableName


def with_views(text: ParsedText, views: Mapping[TableName, Entry], entries: Mapping[TableName, Entry]) -> ParsedText:
    """Return the query with a WITH query before it for each AI view that it names, directly or indirectly.

    A text that names no AI view comes back as the same object. A WITH query of the same name in it hides a view whose
    name has no schema.

    Raises:
        SqlError: some views read each other.
        UnsupportedError: the name of a view also means something else, and has no place for an alias.
    """
    read: dict[TableName, list[Entry]] = {}

    def below(entry: Entry) -> list[Entry]:
        if entry.name not in read:  # a statement parses each view once
            read[entry.name] = mentioned(entry, views)
        return read[entry.name]

    needed: dict[TableName, Entry] = {}
    for name in dict.fromkeys(mention.name for mention in _mentions(text, views)):
        needed |= {view.name: view for view in ordered(views[name], below)}
    if not needed:
        return text
    texts = {name: ParsedText(view_text(entry, entries)) for name, entry in needed.items()}
    names = _names_of_with(needed, [text, *texts.values()], entries)
    definitions = ", ".join(_definition(entry, texts[name], names) for name, entry in needed.items())
    return ParsedText(_with(_renamed(text, names), definitions))


def mentioned(entry: Entry, views: Mapping[TableName, Entry]) -> list[Entry]:
    """Return the other AI views that a view mentions."""
    found = dict.fromkeys(mention.name for mention in _mentions(ParsedText(entry.query), views))
    return [views[name] for name in found if name != entry.name]


def _mentions(text: ParsedText, views: Collection[TableName]) -> Iterator[_Mention]:
    """Yield every name that can mean a view: `v` in the default schema, `s.v` or `flightllm.s.v`."""
    known, tokens = {name.name for name in views}, text.tokens
    for index, token in enumerate(tokens):
        name = identifier(token)
        if name is None or name not in known:
            continue
        if any(common.named == index for common in text.scopes.common_tables):
            continue
        start, qualifiers = index, list[str | None]()
        while start > 1 and tokens[start - 1].is_symbol("."):
            start -= 2
            qualifiers.append(identifier(tokens[start]))
        if qualifiers[1:] not in ([], [CATALOG]):
            continue
        found = TableName((qualifiers or [DEFAULT_SCHEMA])[0] or "", name)
        if found in views and (qualifiers or text.scopes.common_table((name,), index) is None):
            yield _Mention(start, index + 1, found)


def _names_of_with(
    needed: Mapping[TableName, Entry], texts: Sequence[ParsedText], entries: Mapping[TableName, Entry]
) -> Mapping[TableName, str]:
    """Return the name of each view's WITH query: that of the view, unless the name means something else somewhere."""
    taken = {common.name for text in texts for common in text.scopes.common_tables}
    found: dict[TableName, str] = {}
    for name in needed:
        usual = TableName(DEFAULT_SCHEMA, name.name)
        chosen, number = name.name, 1
        while chosen in taken or (chosen == name.name and name != usual and usual in entries):
            chosen, number = f"{name.name}_{number}", number + 1
        taken.add(chosen)
        found[name] = chosen
    return found


def _renamed(text: ParsedText, names: Mapping[TableName, str]) -> str:
    """Write the names of views as those of their WITH queries, which have no schema: `v` for `s.v`.

    Raises:
        UnsupportedError: a name has no place for the alias that it needs.
    """
    sql, tokens = text.sql, text.tokens
    tables = {table.first: table for scope in text.scopes.of for table in scope.tables}
    for mention in reversed(list(_mentions(text, names))):
        name = names[mention.name]
        own, start, end = name == mention.name.name, tokens[mention.start].start, tokens[mention.stop - 1].end
        is_qualifier = mention.stop < len(tokens) and tokens[mention.stop].is_symbol(".")
        if own or is_qualifier or not text.scopes.names_table[mention.start]:
            sql = sql[:start] + sql[tokens[mention.stop - 1].start :]
            continue
        table = tables.get(mention.start)
        if table is None or table.last != mention.stop:
            raise UnsupportedError(f"the WITH query {mention.name.name!r} has the name of an AI view in use: rename it")
        alias = "" if table.aliased else f" AS {quoted(mention.name.name)}"
        sql = sql[:start] + quoted(name) + alias + sql[end:]
    return sql


def _definition(entry: Entry, text: ParsedText, names: Mapping[TableName, str]) -> str:
    columns = f" ({', '.join(quoted(column) for column in entry.columns)})" if entry.columns else ""
    others = {name: other for name, other in names.items() if name != entry.name}
    return f"{quoted(names[entry.name])}{columns} AS ({_renamed(text, others)})"


def _with(sql: str, definitions: str) -> str:
    tokens = tokenize(sql)
    if not tokens or not tokens[0].is_word("with"):
        return f"WITH {definitions} {sql}"
    recursive = len(tokens) > 1 and tokens[1].is_word("recursive")
    after = tokens[1 if recursive else 0].end
    return f"{sql[:after]} {definitions},{sql[after:]}"


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
