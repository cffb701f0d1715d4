"""Write the star of a struct as its fields: DataFusion knows stars of tables only."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from flightllm.errors import UnsupportedError
from flightllm.sql.literals import text_literal
from flightllm.sql.nodes import Json, Node, body, kind, name_of, walk
from flightllm.sql.query_columns import TableColumns, Type, identifiers
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes

_OTHERS = ("opt_ilike", "opt_replace", "opt_rename")
"""The options of a star that a star of a struct does not have here."""


def struct_stars(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SELECT id, r.* FROM t` as `SELECT id, r['a'] AS "a", r['b'] AS "b" FROM t` for a struct `r`.

    Raises:
        UnsupportedError: the star has an option other than EXCLUDE.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        if kind(node) != "Select":
            return node
        select = body(node)
        items = [one for item in select["projection"] for one in _items(item, select, types)]
        same = all(one is item for one, item in zip(items, select["projection"], strict=False))
        return node if same and len(items) == len(select["projection"]) else {"Select": {**select, "projection": items}}

    return tree.rebuilt(change)


def _items(item: Json, select: Json, types: ExpressionTypes) -> Iterator[Json]:
    qualifier, options = body(item) if kind(item) == "QualifiedWildcard" else ({}, {})
    names = body(qualifier) if kind(qualifier) == "ObjectName" else []
    found = _struct(names, set(_tables(select)), types)
    if found is None:
        yield item
        return
    value, type_ = found
    if any(options[name] for name in _OTHERS):
        raise UnsupportedError("the star of a struct takes EXCLUDE only: name the fields, as in r.city AS town")
    excluded = {name_of(one) for one in identifiers((options["opt_exclude"], options["opt_except"]))}
    for field in type_:
        if field.name not in excluded:
            read = written(f"v[{text_literal(field.name)}]", v=value)
            alias = {**body(names[-1]), "value": field.name, "quote_style": '"'}
            yield {"ExprWithAlias": {"expr": read, "alias": alias}}


def _struct(names: Sequence[Json], tables: set[str], types: ExpressionTypes) -> tuple[Json, pa.StructType] | None:
    """Return the value before a star and its type; None for a table, or a value of another type."""
    if not names or any(kind(name) != "Identifier" for name in names) or name_of(body(names[-1])) in tables:
        return None
    first = 1 if len(names) > 1 and name_of(body(names[0])) in tables else 0
    type_: Type = types.of(names[first])
    for name in names[first + 1 :]:
        at = type_.get_field_index(body(name)["value"]) if type_ is not None and pa.types.is_struct(type_) else -1
        type_ = None if at < 0 or type_ is None else type_.field(at).type
    if type_ is None or not pa.types.is_struct(type_):
        return None
    parts = [body(name) for name in names]
    return ({"CompoundIdentifier": parts} if len(parts) > 1 else {"Identifier": parts[0]}), type_


def _tables(select: Json) -> Iterator[str]:
    """Yield the names by which a SELECT knows its tables."""
    for node in walk(select["from"]):
        fields = body(node)
        if isinstance(fields, dict) and fields.get("alias") and kind(node) != "ExprWithAlias":
            yield name_of(fields["alias"]["name"])
        elif kind(node) == "Table" and fields.get("name"):
            yield name_of(body(fields["name"][-1]))
