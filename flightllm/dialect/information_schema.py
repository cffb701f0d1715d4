"""Correct columns of `information_schema` that DataFusion fills in other ways than the SQL standard."""

from collections.abc import Iterator, Sequence

from flightllm.common.names import CATALOG, TableName, quoted
from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.functions.own import OWN_PREFIX
from flightllm.functions.type_names import TYPE_NAME
from flightllm.sql.literals import text_literal
from flightllm.sql.names import read_parts
from flightllm.sql.tokens import TokenKind

_SCHEMA = "information_schema"
_NONE = "(FALSE)"
_INSTEAD = {
    "columns": (
        "SELECT * REPLACE (ordinal_position + arrow_cast(1, 'UInt64') AS ordinal_position,"
        f" {TYPE_NAME}(data_type) AS data_type)"
        ' FROM "{catalog}"."information_schema"."columns"'
    ),
    "parameters": (
        'SELECT * FROM "{catalog}"."information_schema"."parameters"'
        f" WHERE NOT starts_with(specific_name, {text_literal(OWN_PREFIX)})"
    ),
    "routines": (
        'SELECT * FROM "{catalog}"."information_schema"."routines"'
        f" WHERE NOT starts_with(routine_name, {text_literal(OWN_PREFIX)})"
    ),
    "schemata": (
        'SELECT * REPLACE (CAST(NULL AS VARCHAR) AS schema_owner) FROM "{catalog}"."information_schema"."schemata"'
    ),
    "tables": (
        "SELECT * REPLACE (CASE WHEN {restricted} THEN 'BASE TABLE' WHEN {ai_views} THEN 'VIEW' ELSE table_type END"
        " AS table_type)"
        ' FROM "{catalog}"."information_schema"."tables"'
    ),
    "views": (
        "SELECT table_catalog, table_schema, table_name, CAST(NULL AS VARCHAR) AS definition"
        """ FROM "{catalog}"."information_schema"."tables" WHERE (table_type = 'VIEW' AND NOT {restricted})"""
        " OR {ai_views}"
    ),
}
"""For each table, the query that replaces it.

DataFusion counts columns from 0, has names of its own for types, names an owner 'None', and lists base tables among
the views. There, a table with row filters or masks is a view, and a view with AI calls is a table. `definition` is
NULL, because a reader of a view cannot see what the view reads. Functions that only the server's texts call are hidden.
"""


def information_schema(source: Source) -> Iterator[Edit]:
    """Rewrite `FROM information_schema.columns` as `FROM (SELECT …) AS "columns"`.

    A name with its catalog, all in double quotes, stays: it is the name in a text that this rule wrote.
    """
    changed = set[str]()
    restricted, ai_views = _one_of(source.place.restricted()), _one_of(source.place.ai_views())
    for scope in {id(scope): scope for scope in source.scopes.of}.values():
        for table in scope.tables:
            name = table.parts[-1] if len(table.parts) > 1 and table.parts[-2] == _SCHEMA else ""
            if (
                name not in _INSTEAD
                or (name == "tables" and restricted == ai_views == _NONE)
                or not _is_read(source, table.first)
            ):
                continue
            if name == "tables" and restricted == ai_views == _NONE:
                continue
            tokens = source.tokens[table.first : table.last]
            if (
                len(table.parts) == 3
                and table.parts[0] == CATALOG
                and all(token.kind is TokenKind.QUOTED for token in tokens[::2])
            ):
                continue
            alias = "" if table.aliased else f" AS {quoted(name)}"
            query = f"({_INSTEAD[name].format(catalog=CATALOG, restricted=restricted, ai_views=ai_views)}){alias}"
            yield Edit(tokens[0].start, tokens[-1].end, query)
            if not table.aliased:
                changed.add(name)
    if changed:
        yield from _qualifiers(source, changed)


def _one_of(names: Sequence[TableName]) -> str:
    """Return a condition on tables of `information_schema`: they have one of some names."""
    pairs = (f"(table_schema = {text_literal(one.schema)} AND table_name = {text_literal(one.name)})" for one in names)
    return f"({' OR '.join(pairs)})" if names else _NONE


def _is_read(source: Source, index: int) -> bool:
    changes = source.is_word(0, "delete", "update", "merge") and index <= 2
    before = source.is_word(index - 1, "from", "join", "using") or source.is_symbol(index - 1, ",")
    return before and not changes


def _qualifiers(source: Source, changed: set[str]) -> Iterator[Edit]:
    """Rewrite `information_schema.columns.column_name` as `columns.column_name`, and a star in the same way."""
    for index, token in enumerate(source.tokens):
        if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or source.scopes.names_table[index]:
            continue
        parts, after = read_parts(source.tokens, index)
        inside = source.is_symbol(index - 1, ".") or after > len(source.tokens)
        if not inside and len(parts) in {3, 4} and parts[-3] == _SCHEMA and parts[-2] in changed:
            yield Edit(token.start, source.tokens[after - 3].start, "")
        star = source.is_symbol(after - 1, ".") and source.is_symbol(after, "*")
        if not inside and star and len(parts) in {2, 3} and parts[-2] == _SCHEMA and parts[-1] in changed:
            yield Edit(token.start, source.tokens[after - 2].start, "")
