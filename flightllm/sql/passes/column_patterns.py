"""Write DuckDB's `COLUMNS('a.*')` as the columns whose names the pattern matches."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.common.names import COLUMNS_OF
from flightllm.errors import SqlError, UnsupportedError
from flightllm.sql.joins import merged_names
from flightllm.sql.nodes import (
    Json,
    Node,
    body,
    is_query,
    kind,
    name_of,
    new_identifier,
    rebuilt,
    replaced,
    text_of_literal,
    walk,
)
from flightllm.sql.query_columns import QueryColumns, TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

COLUMNS: Final = frozenset({COLUMNS_OF})
"""The function that the pass rewrites; only the generator of other dialects writes it."""
_Found = tuple[str, Node, str | None]
"""The name of a column, the node that reads it, and the pattern that its name matches."""
_GROUP: Final = re.compile(r"\\(\d)")


def column_patterns(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT min(COLUMNS('a|b'))` as `SELECT min(a) AS a, min(b) AS b`; a condition holds for all columns.

    Raises:
        SqlError: no column has such a name.
        UnsupportedError: the columns of a table are unknown, or COLUMNS is in another clause.
    """
    columns = QueryColumns(tree.root, columns_of)

    def changed(query: Json) -> Json:
        if kind(query["body"]) != "Select":
            return query
        fields = body(query["body"])
        items = [made for item in fields["projection"] for made in _items(item, fields["from"], columns)]
        where = _condition(fields["selection"], fields["from"], columns)
        return {**query, "body": {"Select": {**fields, "projection": items, "selection": where}}}

    root = rebuilt(tree.root, changed, is_query)
    if any(_calls(root)):
        raise UnsupportedError("COLUMNS of duckdb works in SELECT and WHERE: name the columns in other clauses")
    return Tree(tree.sql, root)


def _calls(value: Json) -> list[Node]:
    return [one for one in walk(value) if kind(one) == "Function" and function_name(body(one)) == COLUMNS_OF]


def _items(item: Json, tables: Sequence[Json], columns: QueryColumns) -> Iterator[Json]:
    calls = _calls(item)
    if not calls:
        yield item
        return
    alias = name_of(body(item)["alias"]) if kind(item) == "ExprWithAlias" else None
    value = body(item)["expr"] if alias is not None else body(item)
    for name, column, pattern in _chosen(calls, tables, columns):
        named = name if alias is None else _named(alias, name, pattern)
        made = replaced(value, {id(one): column for one in calls})
        yield {"ExprWithAlias": {"expr": made, "alias": new_identifier(named)}}


def _named(alias: str, name: str, pattern: str | None) -> str:
    """Return an alias with the groups of the match in place of their numbers; number 0 is the name.

    Raises:
        SqlError: the pattern lacks such a group.
    """

    def group(found: re.Match[str]) -> str:
        if found[1] == "0":
            return name
        whole = f"^(?s:.*?)(?:{pattern})(?s:.*)$"
        try:
            if pattern is not None:
                return str(pc.replace_substring_regex(name, whole, rf"\{found[1]}").as_py())
        except pa.ArrowInvalid:
            pass
        raise SqlError(
            f"the alias of COLUMNS has the group {found[1]}, which the pattern lacks: write \\0 for the name"
        )

    return _GROUP.sub(group, alias)


def _condition(condition: Json, tables: Sequence[Json], columns: QueryColumns) -> Json:
    calls = _calls(condition)
    if not calls:
        return condition
    every = [
        replaced(condition, {id(one): column for one in calls}) for _, column, _ in _chosen(calls, tables, columns)
    ]
    names = {f"c{place}": one for place, one in enumerate(every)}
    return written(" AND ".join(f"({name})" for name in names), **names)


def _chosen(calls: Sequence[Node], tables: Sequence[Json], columns: QueryColumns) -> list[_Found]:
    """Return the columns that the calls of one expression mean.

    Raises:
        SqlError: no column has such a name.
        UnsupportedError: the calls differ, or the columns of a table are unknown.
    """
    asked = {tuple(text_of_literal(one) or "" for one in arguments(body(call))) for call in calls}
    if len(asked) > 1:
        raise UnsupportedError("an expression has several COLUMNS of different names: write one item for each column")
    how, *given = asked.pop()
    known = list(_columns(tables, columns))
    found = [(name, column, None) for _, name, column in known]
    if how == "all":
        without = {name.lower() for name in given}
        chosen: list[_Found] = [one for one in found if one[0].lower() not in without]
    elif how == "table":
        chosen = [(name, column, None) for table, name, column in known if table == given[0]]
    elif how == "names":
        wanted = {name.lower() for name in given}
        chosen = [one for one in found if one[0].lower() in wanted]
        chosen = chosen if wanted <= {name.lower() for name, _, _ in chosen} else []
    else:
        matched = _matches(given[0], [name for name, _, _ in found])
        chosen = [(name, column, given[0]) for (name, column, _), one in zip(found, matched, strict=True) if one]
    if not chosen:
        names = ", ".join(name for name, _, _ in found)
        raise SqlError(f"COLUMNS({', '.join(map(repr, given))}) finds no column: write names among {names[:300]}")
    return chosen


def _matches(pattern: str, names: Sequence[str]) -> list[bool]:
    """Return which names have a match: Arrow has DuckDB's RE2, which takes no longer for any pattern."""
    try:
        return list(pc.match_substring_regex(pa.array(names, pa.string()), pattern).to_pylist())
    except pa.ArrowInvalid as error:
        raise SqlError(f"the pattern {pattern[:60]!r} of COLUMNS cannot be read: write one as 'a|b.*'") from error


def _columns(items: Sequence[Json], columns: QueryColumns) -> Iterator[tuple[str, str, Node]]:
    """Yield the table, the name and the node of each column; columns that a join merges come once."""
    tables, merged = list[tuple[str, list[str]]](), set[str]()
    for item in items:
        left: list[str] = []
        for factor, join in [(item["relation"], None), *((join["relation"], join) for join in item["joins"])]:
            name, found = columns.table(factor)
            if found is None:
                raise UnsupportedError("COLUMNS needs tables whose columns are known: name the columns")
            shared = (merged_names(join, left, found) if join is not None else None) or []
            merged |= set(shared)
            tables.append((name, [one for one in found if one not in shared]))
            left += tables[-1][1]
    names = [name for _, found in tables for name in found]
    for table, found in tables:
        for name in found:
            plain = name in merged or names.count(name) == 1
            yield table, name, _column("" if plain else table, name)


def _column(table: str, name: str) -> Node:
    parts = [new_identifier(table), new_identifier(name)] if table else []
    return {"CompoundIdentifier": parts} if parts else {"Identifier": new_identifier(name)}
