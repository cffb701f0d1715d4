"""Compare jsonb as PostgreSQL does: DataFusion compares the texts, in which 1.0 and 1 differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError, UnsupportedError
from flightllm.functions.json_order import JSON_KEY
from flightllm.sql.json_types import JSONB_TYPE, JsonTypes
from flightllm.sql.nodes import NAMES, Json, Node, body, factors, kind, name_of, new_identifier, unnested, walk
from flightllm.sql.passes.by_key import GROUPINGS, ORDERS, grouped_keys
from flightllm.sql.passes.grouping_modifiers import meant
from flightllm.sql.passes.intervals import EqualWriter
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.select_shapes import is_aggregate
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import arguments, expressions_of, function_name

_NAMES: Final = frozenset({"Identifier", "CompoundIdentifier"})
_VALUES: Final = _NAMES | {"Function", "BinaryOp", "Nested", "Cast", "Case", "CompoundFieldAccess"}
"""The kinds of expressions that can be a jsonb."""
_FIRST_IN_SETS: Final = "CASE WHEN grouping(k) = 0 THEN first_value(v) END"
"""The value of a group, which is NULL in the totals."""


def jsonb_order(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `j = '{"a": 1}'` for a stored jsonb as a comparison of keys; also in GROUP BY, DISTINCT and ORDER BY.

    Raises:
        SqlError: PostgreSQL cannot compare the values, such as a jsonb and a text.
        UnsupportedError: a clause has no such form, such as UNION.
    """
    writer = _Writer(tree, columns_of, _Jsonb())
    writer.types = JsonTypes(tree.root, columns_of)
    return tree.rebuilt(writer.changed)


class _Jsonb:
    """Values of jsonb by bytes in PostgreSQL's order."""

    operators: Final = ORDERS | {"Eq", "NotEq", "Spaceship"}
    said: Final = (
        "compares jsonb, of which 1.0 and 1 must be equal: write SELECT DISTINCT … FROM (… UNION ALL …) for UNION,"
        " ON a.j = b.j for USING, and EXISTS (… WHERE a.j = b.j) for INTERSECT, EXCEPT and IN"
    )

    def has(self, given: Type) -> bool:
        """Return whether a type is jsonb."""
        return bool(given == JSONB_TYPE)

    def key(self, tree: Tree, value: Json, types: Sequence[Type]) -> Json:
        """Return the key of a jsonb, or of the literal of one."""
        given, inner = types[0], unnested(value)
        literal = kind(inner) == "Value" and (given is None or pa.types.is_string(given) or pa.types.is_null(given))
        if given != JSONB_TYPE and not literal and given is not None and not pa.types.is_null(given):
            raise SqlError(
                f"a jsonb is compared with a value of another type at {tree.position(value)}: write to_jsonb(value), or"
                " text::jsonb for the text of a JSON value"
            )
        return written(f"{JSON_KEY}(v)", v=value)


class _Writer(EqualWriter):
    """Writes the comparisons of jsonb; rows of one group have equal values, and the first one stands for all."""

    def only_key(self, value: Json) -> Json:
        """Return the key of a value; that of the first value of a group is a key of GROUP BY."""
        if kind(value) == "Function" and function_name(body(value)) == "first_value" and body(value)["over"] is None:
            value = arguments(body(value))[0]
        return super().only_key(value)

    def function(self, name: str, fields: Json) -> Node | None:
        """Write a call that compares its arguments."""
        values = arguments(fields)
        if function_name(fields) in {"min", "max"} and self.any(*values):
            called = function_name(fields)
            raise SqlError(f"the function {called}(jsonb) does not exist: write {called}(j::text)")
        if function_name(fields) == "grouping" and self.any(*values):
            given = [{"Unnamed": {"Expr": key}} for key in map(self.only_key, values)]
            return {name: {**fields, "args": {"List": {**body(fields["args"]), "args": given}}}}
        return super().function(name, fields)

    def expressions(self, name: str, fields: Json) -> Node | None:
        """Write the keys of ORDER BY; `select` writes those of GROUP BY."""
        if fields and isinstance(fields[0], list):
            return None
        return super().expressions(name, fields)

    def select(self, name: str, fields: Json) -> Node | None:
        """Write DISTINCT and GROUP BY."""
        distinct, grouped = fields["distinct"], fields["group_by"]
        if distinct and kind(distinct) != "On" and self.has_keyed({name: fields}):
            return {name: self._distinct(fields)}
        self.check_clauses(name, fields)
        keys = body(grouped)[0] if kind(grouped) == "Expressions" else []
        listed = list(grouped_keys(keys))
        if any(self.keyed_place(key, {name: fields}) for key in listed) or self.any(*listed):
            return {name: self._grouped(fields, keys)}
        return super().select(name, fields)

    def _distinct(self, fields: Json) -> Json:
        """Return `SELECT DISTINCT a, j` as `SELECT a, first_value(j) … GROUP BY a, key`."""
        columns = self.types.columns({"Select": fields}) or []
        items = expressions_of({"Select": fields})
        names = [column.name for column in columns]
        if not items and len(set(names)) == len(names) and len(fields["projection"]) == 1:
            items = [_column(fields["projection"][0], one) for one in names]
        calls = any(kind(one) == "Function" and (is_aggregate(one) or body(one)["over"]) for one in walk(items))
        if len(items) != len(columns) or calls or _is_grouped(fields):
            raise UnsupportedError(
                "DISTINCT over jsonb with GROUP BY, windows or repeated names is not supported: write SELECT DISTINCT"
                " a, j FROM (SELECT …)"
            )
        projection, keys = list[Json](), list[Json]()
        for column, item in zip(columns, items, strict=True):
            of_json = self._keyed.has(column.type)
            shown = written("first_value(v)", v=item) if of_json else item
            projection.append({"ExprWithAlias": {"expr": shown, "alias": new_identifier(column.name)}})
            if of_json or kind(unnested(item)) != "Value":
                keys.append(written(f"{JSON_KEY}(v)", v=item) if of_json else item)
        return {**fields, "distinct": None, "projection": projection, "group_by": {"Expressions": [keys, []]}}

    def _grouped(self, fields: Json, keys: Sequence[Json]) -> Json:
        """Return a query with GROUP BY keys, in which the first value of a group stands for the group."""
        items, modifiers = expressions_of({"Select": fields}), body(fields["group_by"])[1]
        if not items:
            raise self.refused("GROUP BY of a star", keys)
        aliases = {
            body(one)["alias"]["value"].lower(): body(one)["expr"]
            for one in fields["projection"]
            if kind(one) == "ExprWithAlias"
        }
        columns = {name for one in factors(fields["from"]) for name in self.types.columns_by_name(one)}
        in_sets = bool(modifiers) or any(kind(one) in GROUPINGS for one in keys)
        wanted = dict[str, Json]()

        def changed(key: Json) -> Json:
            if isinstance(key, list | tuple):
                return list(map(changed, key))
            if kind(key) in GROUPINGS:
                return {kind(key): changed(body(key))}
            place = self.keyed_place(key, {"Select": fields})
            value = meant(key, fields["projection"]) if place or in_sets else key
            name = name_of(body(value)) if kind(value) == "Identifier" else ""
            if not place and name in aliases and name not in columns:  # a column of the tables wins
                value = aliases[name]
            if not self.any(value):
                return value if in_sets else key
            after = written(f"{JSON_KEY}(v)", v=value)
            first = written(_FIRST_IN_SETS if in_sets else "first_value(v)", v=value, k=after)
            wanted.update(dict.fromkeys(_texts(value), first))
            return after

        grouped = {"Expressions": [changed(keys), modifiers]}
        projection = [self._first(item, wanted) for item in fields["projection"]]
        having = fields["having"] and _with_firsts(fields["having"], wanted)
        return {**fields, "projection": projection, "having": having, "group_by": grouped}

    def _first(self, item: Json, wanted: Mapping[str, Json]) -> Json:
        if kind(item) == "ExprWithAlias":
            return {"ExprWithAlias": {**body(item), "expr": _with_firsts(body(item)["expr"], wanted)}}
        value = body(item)
        after = _with_firsts(value, wanted)
        if after is value or kind(value) not in _NAMES:
            return {"UnnamedExpr": after}
        name = body(value) if kind(value) == "Identifier" else body(value)[-1]
        return {"ExprWithAlias": {"expr": after, "alias": name}}


def _column(star: Json, name: str) -> Json:
    """Return a column of `*` or of `a.*`."""
    column = new_identifier(name)
    if kind(star) != "QualifiedWildcard":
        return {"Identifier": column}
    return {"CompoundIdentifier": [*map(body, body(body(star)[0])), column]}


def _is_grouped(fields: Json) -> bool:
    grouped = fields["group_by"]
    return kind(grouped) != "Expressions" or bool(body(grouped)[0])


def _texts(value: Json) -> Iterator[str]:
    """Yield an expression's text, and the name of a column with and without its table."""
    yield text_of(value)
    if kind(value) == "CompoundIdentifier":
        yield text_of({"Identifier": body(value)[-1]})


def _with_firsts(value: Json, wanted: Mapping[str, Json]) -> Json:
    """Return an expression of a grouped query with the first value of a group outside of its aggregates."""
    if kind(value) in _VALUES and (first := next(filter(None, map(wanted.get, _texts(value))), None)) is not None:
        return first
    if is_aggregate(value) or (kind(value) == "Function" and function_name(body(value)) == "grouping"):
        return value
    if isinstance(value, dict):
        after = {key: part if key in NAMES else _with_firsts(part, wanted) for key, part in value.items()}
        return value if all(after[key] is part for key, part in value.items()) else after
    if isinstance(value, list | tuple):
        listed = [_with_firsts(part, wanted) for part in value]
        return value if all(new is old for new, old in zip(listed, value, strict=True)) else listed
    return value
