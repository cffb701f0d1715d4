"""Rewrite stars over one table: DataFusion accepts the table's name only in the spelling that FROM has."""

from collections.abc import Iterator

from flightllm.common.names import CATALOG, TableName, quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.names import read_parts
from flightllm.sql.scopes import Scope, Table
from flightllm.sql.tokens import TokenKind


def stars(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT pt.* FROM public.pt` as `SELECT "public"."pt".* FROM public.pt`, and the reverse.

    `SELECT (r).*` of PostgreSQL becomes `SELECT r.*`.
    """
    for select in source.selects:
        for first, last in select.items:
            if source.is_symbol(first, "(") and _is_star(source, closing := source.closing[first]):
                for at in (first, closing):
                    yield Edit(source.tokens[at].start, source.tokens[at].end, "")
                continue
            parts, after = read_parts(source.tokens, first)
            if not parts or not source.is_symbol(after, "*") or after >= last:
                continue
            table = _table(source, source.scopes.of[first], parts)
            if table is not None and table.parts != parts:
                written = ".".join(map(quoted, table.parts))
                yield Edit(source.tokens[first].start, source.tokens[after - 2].end, written)


def _is_star(source: Source, closing: int) -> bool:
    """Return whether a star follows a name in parentheses."""
    named = source.tokens[closing - 1].kind in {TokenKind.WORD, TokenKind.QUOTED}
    return named and source.is_symbol(closing + 1, ".") and source.is_symbol(closing + 2, "*")


def _table(source: Source, scope: Scope, parts: tuple[str, ...]) -> Table | None:
    """Return the only table in scope that a qualifier means, if it has no alias; otherwise None."""
    found = [table for table in scope.tables if table.parts and not table.aliased and _means(source, table, parts)]
    exact = any(table.alias == parts[-1] and (table.aliased or not table.parts) for table in scope.tables)
    return found[0] if len(found) == 1 and not (exact and len(parts) == 1) else None


def _means(source: Source, table: Table, parts: tuple[str, ...]) -> bool:
    if source.scopes.common_table(table.parts, table.first) is not None:
        return False
    if len(table.parts) == 1:
        name = source.place.found(table.parts[0])
        full = (CATALOG, name.schema, name.name)
    else:
        name = TableName(table.parts[-2], table.parts[-1])
        full = (CATALOG, name.schema, name.name)
    return full[-len(parts) :] == parts
