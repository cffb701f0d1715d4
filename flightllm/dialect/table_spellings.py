"""Find tables whose names have capitals by unquoted names in any case."""

from collections.abc import Iterator, Sequence

from flightllm.common.names import CATALOG, TableName, quoted
from flightllm.dialect.source import Source
from flightllm.dialect.spellings import ambiguous, name_at, spelling
from flightllm.dialect.table_names import target_tokens
from flightllm.dialect.text import Edit
from flightllm.sql.names import read_parts
from flightllm.sql.tokens import TokenKind

_READ = ("from", "join", "into", "update")
_BEFORE_TABLES = ("pivot", "unpivot", "summarize")
_BEFORE_LISTS = ("into", "on", "table", "references")
"""Words before a table that a list of columns can follow, not the arguments of a function."""
_QUERIES = ("select", "with", "values", "from", "table")


def table_spellings(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT 1 FROM movies` as `SELECT 1 FROM "Movies"` if there is a table `Movies`, but no table `movies`.

    A WITH query with a quoted name is found, too. The name of a new table or view stays.

    Raises:
        SqlError: several tables have the name without case.
    """
    for index in sorted({*_read_tokens(source), *_targets(source)}):
        yield from _edits(source, index)


def _read_tokens(source: Source) -> Iterator[int]:
    scopes = source.scopes
    for index, token in enumerate(source.tokens):
        if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or source.is_symbol(index - 1, "."):
            continue
        read = scopes.names_table[index] and scopes.clauses[index] in _READ
        if (read or source.is_word(index - 1, *_BEFORE_TABLES)) and not source.is_word(index, *_QUERIES):
            yield index


def _targets(source: Source) -> Iterator[int]:
    creates = source.is_word(0, "create")
    for index in target_tokens(source):
        made = creates and source.is_word(index - 1, "table", "view", "exists")
        if index < len(source.tokens) and not made and not source.is_word(index, *_QUERIES):
            yield index


def _edits(source: Source, index: int) -> Iterator[Edit]:
    _, after = read_parts(source.tokens, index)
    places = range(index, after, 2)
    names = [name_at(source.tokens[at]) or "" for at in places]
    called = source.is_symbol(after, "(") and not source.is_word(index - 1, *_BEFORE_LISTS)
    if not names or len(names) > 3 or called or _is_exact(source, index, names):
        return
    found = _common(source, index) if len(names) == 1 else None
    spelt = [found] if found is not None else _found(source, places, names)
    for at, before, now in zip(places, names, spelt or names, strict=True):
        if now != before:
            yield Edit(source.tokens[at].start, source.tokens[at].end, quoted(now))


def _is_exact(source: Source, index: int, names: Sequence[str]) -> bool:
    if len(names) == 1:
        common = source.scopes.common_table(names, index) is not None
        return common or source.place.is_table(source.place.found(names[0]))
    return source.place.is_table(TableName(names[-2], names[-1])) and names[:-2] in ([], [CATALOG])


def _common(source: Source, index: int) -> str | None:
    """Return the name of the WITH query that a token means without case."""
    visible = {one.name for one in source.scopes.common_tables if one.is_visible(index)}
    return spelling(source, index, visible, "table")


def _found(source: Source, places: Sequence[int], names: Sequence[str]) -> list[str] | None:
    """Return the parts of the table that a name means without case; None if there is no such table."""
    one_part = len(names) == 1
    if len(names) == 3 and spelling(source, places[0], [CATALOG]) is None:
        return None
    for schema in source.place.searched if one_part else (names[-2],):
        alike = source.place.tables_spelt(schema, names[-1])
        found = [one for one in alike if one.schema == schema] if one_part else alike
        found = sorted(one for one in found if _keeps(source, places, names, one))
        if len(found) > 1:
            shown = (quoted(one.name) if one_part else f"{quoted(one.schema)}.{quoted(one.name)}" for one in found)
            raise ambiguous(source, places[-1], "table", shown)
        if found:
            return [CATALOG, found[0].schema, found[0].name][-len(names) :]
    return None


def _keeps(source: Source, places: Sequence[int], names: Sequence[str], table: TableName) -> bool:
    """Return whether a table has the quoted parts of a name exactly."""
    pairs = zip(reversed(places), reversed(names), (table.name, table.schema), strict=False)
    return all(name == part or source.tokens[at].kind is TokenKind.WORD for at, name, part in pairs)
