"""Rewrite joins in parentheses with a name as subqueries; DataFusion keeps both keys and reads the left one."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.unread_joins import alias_at
from flightllm.sql.scopes import begins_query


def named_joins(source: Source) -> Iterator[Edit]:
    """Rewrite `(t RIGHT JOIN u USING (a)) AS q` as `(SELECT * FROM t RIGHT JOIN u USING (a)) AS q`.

    The name hides the joined tables, and its columns are those of `*`; the rule `using` then writes these columns.
    """
    for opening, closing in source.closing.items():
        if _is_join(source, opening, closing) and alias_at(source, closing + 1) is not None:
            end = source.tokens[opening].end
            yield Edit(end, end, "SELECT * FROM ")


def _is_join(source: Source, opening: int, closing: int) -> bool:
    """Return whether a parenthesis encloses joined tables, and not a query."""
    if not source.scopes.names_table[opening] or not source.is_symbol(opening, "("):
        return False
    if begins_query(source.tokens, source.closing, opening):
        return False
    scope = source.scopes.of[opening]
    return any(source.is_word(at, "join") and source.scopes.of[at] is scope for at in range(opening + 1, closing))
