"""Refuse to count the rows that an outer join found by `count(t.*)`: DataFusion counts the others, too."""

from collections.abc import Iterator, Sequence
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.nodes import Json, Node, body, kind, name_of, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree
from flightllm.sql.types import function_name

_LEFT: Final = frozenset({"Left", "LeftOuter"})
_RIGHT: Final = frozenset({"Right", "RightOuter"})
_FULL: Final = "FullOuter"


def has_count_of_rows(text: ParsedText) -> bool:
    """Return whether a text can count the rows of one table."""
    return ".*" in text.marks


def whole_rows(tree: Tree, _: TableColumns) -> Tree:
    """Return the same tree: `count(t.*)` is `count(*)` where no outer join adds rows for `t`.

    Raises:
        UnsupportedError: an outer join can have rows without a row of `t`, or DISTINCT compares rows.
    """
    for node in walk(tree.root):
        if kind(node) == "Select":
            lacking = frozenset(name for item in body(node)["from"] for name in _lacking(item))
            for part in _own(body(node)):
                _check(part, lacking, tree)
    return tree


def _own(select: Json) -> Iterator[Node]:
    """Yield the nodes of a SELECT's own expressions."""
    for key in ("projection", "having", "qualify"):
        yield from walk(select[key])


def _check(node: Node, lacking: frozenset[str], tree: Tree) -> None:
    if kind(node) != "Function" or function_name(body(node)) != "count" or kind(body(node)["args"]) != "List":
        return
    listed = body(body(node)["args"])
    stars = [star for star in walk(listed["args"]) if kind(star) == "QualifiedWildcard"]
    if len(stars) != 1 or len(listed["args"]) != 1:
        return
    name = _last(body(stars[0]))
    if name in lacking:
        raise UnsupportedError(
            f"count({name}.*) at {tree.position(node)} is not supported beside an outer join that can lack a row of"
            f" {name}: count a column of {name} that has no NULL, as in count({name}.id)"
        )
    if listed["duplicate_treatment"] == "Distinct":
        raise UnsupportedError(
            f"count(DISTINCT {name}.*) at {tree.position(node)} is not supported: count the rows of"
            f" (SELECT DISTINCT * FROM {name})"
        )


def _lacking(item: Json) -> set[str]:
    """Return the tables of an item of FROM that can be without a row in a row of its joins."""
    found = set[str]()
    before = set(_names(item["relation"]))
    for join in item["joins"]:
        here, operator = set(_names(join["relation"])), kind(join["join_operator"])
        if operator in _LEFT or operator == _FULL:
            found |= here
        if operator in _RIGHT or operator == _FULL:
            found |= before
        before |= here
    for node in walk([item["relation"], *(join["relation"] for join in item["joins"])]):
        if kind(node) == "NestedJoin":
            found |= _lacking(body(node)["table_with_joins"])
    return found


def _names(relation: Node) -> Iterator[str]:
    """Yield the names by which expressions know the tables of a relation."""
    fields = body(relation)
    alias = fields.get("alias")
    if alias:
        yield name_of(alias["name"])
    elif kind(relation) == "Table":
        yield _last(fields["name"])
    elif kind(relation) == "NestedJoin":
        inner = fields["table_with_joins"]
        for one in (inner["relation"], *(join["relation"] for join in inner["joins"])):
            yield from _names(one)


def _last(names: Sequence[Json]) -> str:
    return name_of(body(names[-1])) if kind(names[-1]) == "Identifier" else ""
