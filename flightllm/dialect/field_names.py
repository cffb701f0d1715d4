"""Name the columns of inner queries after the fields of structs that they read: `r.city` is `city`."""

from collections.abc import Iterator

from flightllm.common.names import quoted
from flightllm.dialect.output_names import read_item
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.scopes import Scope


def has_inner_query(source: ParsedText) -> bool:
    """Return whether a text has a query in another one."""
    return len(source.selects) > 1


def field_names(source: Source) -> Iterator[Edit]:
    """Rewrite `SELECT city FROM (SELECT r.city FROM t)` as `SELECT city FROM (SELECT r.city AS "city" FROM t)`.

    DataFusion names such a column `t.r[city]`. A name that a table precedes stays.
    """
    for select in source.selects:
        if source.scopes.around[select.start] is None:
            continue  # the names of a statement's own columns are those of the text as it was sent
        for first, last in select.items:
            item = read_item(source, first, last)
            if item.alias is None and len(item.column) > 1 and not _is_table(source, first, item.column[:-1]):
                end = source.tokens[last - 1].end
                yield Edit(end, end, f" AS {quoted(item.column[-1])}")


def _is_table(source: Source, index: int, qualifier: tuple[str, ...]) -> bool:
    """Return whether a qualifier means a table of a FROM around a token."""
    scope: Scope | None = source.scopes.of[index]
    while scope is not None:
        for table in scope.tables:
            written = table.parts if not table.aliased else ()
            if qualifier == (table.alias,) or _ends(qualifier, written) or _ends(written, qualifier):
                return True
        scope = scope.parent
    return False


def _ends(parts: tuple[str, ...], end: tuple[str, ...]) -> bool:
    """Return whether a name ends with another: `public.t` and `t` mean the same table."""
    return bool(end) and parts[-len(end) :] == end
