"""Refuse a query of WITH with random values that the statement reads twice: DataFusion computes it each time."""

from collections.abc import Iterator
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, body, is_query, kind, name_of, parts
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.select_shapes import is_random
from flightllm.sql.tree import Tree

RANDOM: Final = frozenset({"random", "uuid", "gen_random_uuid"})
"""Functions that have another value for each call."""


def random_queries(tree: Tree, _columns_of: TableColumns) -> Tree:
    """Return the same tree, if it reads each query of WITH with random values once.

    `WITH t AS (SELECT random() r) SELECT t.r = u.r FROM t, t u` is an error. PostgreSQL and DuckDB compute `t` once, so
    that the result is true.

    Raises:
        UnsupportedError: a statement reads such a query twice; the error has the statement to write.
    """
    for query in _queries(tree.root):
        for one in query["with"]["cte_tables"] if query["with"] else ():
            name = name_of(one["alias"]["name"])
            if len(list(_readings(query, name, one))) > 1 and _is_random(one["query"], query["with"]["cte_tables"]):
                raise UnsupportedError(
                    f"the query {name} of WITH has random values, and reading it twice would draw them twice: write"
                    f" CREATE TABLE {name} AS SELECT …, and read that table"
                )
    return tree


def _queries(value: Json) -> Iterator[Json]:
    """Yield the queries in a value, with those inside of other queries."""
    todo = [value]
    while todo:
        found = todo.pop()
        if is_query(found):
            yield found
        todo.extend(parts(found))


def _is_random(query: Json, near: list[Json]) -> bool:
    """Return whether a query has random values, also in the queries of the same WITH that it reads."""
    todo, passed = [query], set[int]()
    while todo:
        found = todo.pop()
        if is_random(found):
            return True
        passed.add(id(found))
        others = [one for one in near if id(one["query"]) not in passed]
        todo += [one["query"] for one in others if any(_readings(found, name_of(one["alias"]["name"]), None))]
    return False


def _readings(query: Json, name: str, own: Json) -> Iterator[bool]:
    """Yield True for each place in a query that reads a query of WITH, outside of its `own` text."""
    todo = [query]
    while todo:
        found = todo.pop()
        if found is own:
            continue
        if kind(found) == "Table" and [name_of(body(part)) for part in body(found)["name"]] == [name]:
            yield True
        inner = found is not query and is_query(found) and found["with"]
        if not inner or all(name_of(one["alias"]["name"]) != name for one in inner["cte_tables"]):
            todo.extend(parts(found))
