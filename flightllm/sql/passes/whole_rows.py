"""Refuse to count the rows that an outer join found by `count(t.*)`: DataFusion counts the others, too."""

from collections.abc import Iterator, Sequence
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.joins import FULL, LEFT, RIGHT, join_kind
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, parts, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree
from flightllm.sql.types import function_name

_CLAUSES: Final = ("projection", "having", "qualify")


def has_count_of_rows(text: ParsedText) -> bool:
    """Return whether a text can count the rows of one table."""
    return ".*" in text.marks


def whole_rows(tree: Tree, _: TableColumns) -> Tree:
    """Return the same tree: `count(t.*)` is `count(*)` where no outer join adds rows for `t`.

    Raises:
        UnsupportedError: an outer join can have rows without a row of `t`, or DISTINCT compares rows.
    """
    todo: list[Json] = [tree.root]
    while todo:
        found = todo.pop()
        if kind(found) == "Select":
            _check_all([body(found)[clause] for clause in _CLAUSES], body(found), tree)
        elif is_query(found) and kind(found["body"]) == "Select":
            _check_all(found["order_by"], body(found["body"]), tree)
        todo.extend(parts(found))
    return tree


def _check_all(value: Json, select: Json, tree: Tree) -> None:
    lacking = frozenset(name for item in select["from"] for name in lacking_rows(item))
    for node in walk(value):
        _check(node, lacking, tree)


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


def lacking_rows(item: Json) -> set[str]:
    """Return the tables of an item of FROM that can be without a row in a row of its joins."""
    found = set[str]()
    before = set(_names(item["relation"]))
    for join in item["joins"]:
        here, how = set(_names(join["relation"])), join_kind(join)
        if how in {LEFT, FULL}:
            found |= here
        if how in {RIGHT, FULL}:
            found |= before
        before |= here
    for node in walk([item["relation"], *(join["relation"] for join in item["joins"])]):
        if kind(node) == "NestedJoin":
            found |= lacking_rows(body(node)["table_with_joins"])
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
