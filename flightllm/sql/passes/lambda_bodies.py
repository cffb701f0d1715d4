"""Refuse lambdas whose body calls a model or reads an element in a subquery, and lambdas in ORDER BY."""

from collections.abc import Collection, Iterator
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.model_calls import asks_model
from flightllm.sql.nodes import Json, Node, body, kind, name_of, parts, walk
from flightllm.sql.query_columns import TableColumns, own_functions
from flightllm.sql.tree import Tree
from flightllm.sql.types import function_name

_CLAUSES: Final = ("order_by", "partition_by", "OrderBy", "within_group")


def lambda_bodies(tree: Tree, columns_of: TableColumns) -> Tree:
    """Return the same tree.

    Raises:
        UnsupportedError: a lambda calls a model for each element, or a subquery in it reads the element. Or a key of
            ORDER BY or PARTITION BY has a lambda: DataFusion's check of its own plan fails over such a key.
    """
    own = own_functions(columns_of)
    if any(kind(node) == "Lambda" for key in _keys(tree.root) for node in walk(key)):
        raise UnsupportedError(
            "a lambda cannot be in ORDER BY or PARTITION BY: make the value a column of a subquery in FROM, and write"
            " the name of that column"
        )
    for node in walk(tree.root):
        if kind(node) == "Lambda":
            _check(node, own)
    return tree


def _keys(root: Json) -> Iterator[Json]:
    """Yield the clauses ORDER BY and PARTITION BY of a statement."""
    todo = [root]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            yield from (found[name] for name in _CLAUSES if name in found)
        todo.extend(parts(found))


def _check(node: Node, own: Collection[str]) -> None:
    inner = list(walk(body(node)["body"]))
    called = (function_name(body(one)) for one in inner if kind(one) == "Function")
    for name in called:
        if asks_model(name, own):
            raise UnsupportedError(
                f"{name} cannot be inside of a lambda: write FROM t, unnest(list) AS u(x), and array_agg({name}(…))"
            )
    parameters = set(_names(body(node)["params"]))
    for query in (one for one in inner if kind(one) in {"Subquery", "Exists", "InSubquery"}):
        read = any(kind(one) == "Identifier" and name_of(body(one)) in parameters for one in walk(query))
        if read or kind(query) != "Subquery":
            raise UnsupportedError(
                "a subquery in a lambda can only be one value that does not read the element: write"
                " FROM t, unnest(list) AS u(x), and a subquery that reads u.x"
            )


def _names(given: Node) -> Iterator[str]:
    found = body(given)
    yield from map(name_of, found if isinstance(found, list) else [found])
