"""Fit the values that a change stores to their columns as PostgreSQL does: DataFusion cuts fractions."""

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Final

import pyarrow as pa

from flightllm.functions.interval_parts import WITH_DAYS
from flightllm.sql.nodes import Json, Node, body, kind, name_of, new_identifier
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.decimal_literals import DecimalWriter
from flightllm.sql.passes.rounding import rounded
from flightllm.sql.passes.stored_texts import check_type, is_wrong, meaning, takes_texts, wrong_type
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.select_shapes import is_grouped
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, written, written_query
from flightllm.sql.types import INTERVAL, ExpressionTypes, expressions_of

CHANGES: Final = frozenset({"insert", "update", "merge"})
"""The words of which a text must have one to store values."""
_COMPUTED: Final = frozenset({"select", "update", "merge", "table", "with"})
"""Words of texts that store other values than literals."""
_PLAIN: Final = frozenset({"values", "null", "true", "false", "default", "date", "time", "timestamp", "timestamptz"})
"""Words of literals."""
_FITTED: Final = "fitted"
"""The name of a query whose columns are fitted."""


def stores_fractions(text: ParsedText) -> bool:
    """Return whether a text can store a number with a fraction, or a time between two timestamps."""
    if not _COMPUTED.isdisjoint(text.words):
        return True
    values = next((index for index, token in enumerate(text.tokens) if token.is_word("values")), 0)
    return any(
        token.kind is TokenKind.PLACEHOLDER
        or (token.kind is TokenKind.NUMBER and not token.text.isdecimal())
        or (token.kind is TokenKind.WORD and token.text.lower() not in _PLAIN)
        for token in text.tokens[values:]
    )


def assignments(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `SET n = avg(x)` for whole numbers as `SET n = __half_even(avg(x))`; also in INSERT and MERGE.

    In a column of decimals, a literal such as `1.005` becomes a decimal. In a column of intervals, a time between two
    timestamps becomes an interval with days. In a column of bytes, arrays or intervals, the literal of a text becomes
    the value that the text means.

    Raises:
        SqlError: a text has another form, or another value than a literal is a text where the column has no texts.
    """
    fields = body(tree.root)
    target = _target(kind(tree.root), fields)
    columns = columns_of(target) if target else {}
    if not columns:
        return tree
    fitter = _Fitter(tree, columns, ExpressionTypes(tree.root, columns_of))
    return tree.rebuilt(fitter.changed)


def _target(statement: str, fields: Json) -> Sequence[str]:
    """Return the parts of the name of the table that a statement changes; empty for other statements."""
    match statement:
        case "Insert" if kind(fields["table"]) == "TableName":
            name = body(fields["table"])
        case "Update" if kind(fields["table"]["relation"]) == "Table":
            name = body(fields["table"]["relation"])["name"]
        case "Merge" if kind(fields["table"]) == "Table":
            name = body(fields["table"])["name"]
        case _:
            return []
    return [name_of(body(part)) for part in name]


class _Fitter:
    """Fits the values of one statement to the columns of its table."""

    def __init__(self, tree: Tree, columns: Mapping[str, pa.DataType], types: ExpressionTypes) -> None:
        self._tree = tree
        self._columns = columns
        self._types = types
        self._decimals = DecimalWriter(types)

    def changed(self, node: Node) -> Json:
        """Return a statement, or a part of MERGE, whose values fit; the same object if all fit."""
        name, fields = kind(node), body(node)
        if name == "Insert" and isinstance(fields, dict) and fields.get("source"):
            after = self._query(fields["source"], self._targets(fields["columns"]))
            return self._assigned(node if after is fields["source"] else {name: {**fields, "source": after}})
        if name == "Insert" and isinstance(fields, dict) and kind(fields.get("kind")) == "Values":
            values = body(fields["kind"])
            after = self._values(values, self._targets([body(one[-1]) for one in fields["columns"]]))
            return node if after is values else {name: {**fields, "kind": {"Values": after}}}
        return self._assigned(node)

    def _assigned(self, node: Node) -> Json:
        """Return a node with the values of its assignments fitted."""
        name, fields = kind(node), body(node)
        if not isinstance(fields, dict) or not isinstance(given := fields.get("assignments"), list):
            return node
        after = [self._assignment(one) for one in given]
        same = all(map(is_, after, given))
        return node if same else {name: {**fields, "assignments": after}}

    def _assignment(self, assignment: Json) -> Json:
        target, value = assignment["target"], assignment["value"]
        if kind(target) == "ColumnName":
            after = self._value(value, self._column(body(target)))
        elif kind(value) == "Tuple" and len(body(value)) == len(body(target)):
            pairs = zip(body(value), body(target), strict=True)
            fitted = [self._value(one, self._column(column)) for one, column in pairs]
            same = all(map(is_, fitted, body(value)))
            after = value if same else {"Tuple": fitted}
        else:
            return assignment
        return assignment if after is value else {**assignment, "value": after}

    def _column(self, name: Json) -> Type:
        return self._columns.get(name_of(body(name[-1])))

    def _targets(self, names: Sequence[Json]) -> list[Type]:
        """Return the types of the columns that an INSERT fills."""
        return [self._columns.get(name_of(name)) for name in names] if names else list(self._columns.values())

    def _query(self, query: Json, targets: Sequence[Type]) -> Json:
        """Return the query of an INSERT with fitted columns."""
        if kind(query["body"]) == "Values":
            after = self._values(body(query["body"]), targets)
            return query if after is body(query["body"]) else {**query, "body": {"Values": after}}
        if (given := self._with_meanings(query, targets)) is not query:
            return self._query(given, targets)
        if (items := self._items(query)) is not None:
            after = [*map(self._item, items, targets), *items[len(targets) :]]
            if all(map(is_, after, items)):
                return query
            return {**query, "body": {"Select": {**body(query["body"]), "projection": after}}}
        columns = self._types.columns({"Query": query}) or []
        wrong = next((to for one, to in zip(columns, targets, strict=False) if is_wrong(one.type, to)), None)
        if wrong is not None:
            raise wrong_type(wrong)
        forms = [_form(one.type, to) or "v" for one, to in zip(columns, targets, strict=False)]
        if all(form == "v" for form in forms):
            return query
        items = [written(form, v={"Identifier": new_identifier(f"c{number}")}) for number, form in enumerate(forms)]
        names = [f"c{number}" for number in range(len(columns))]
        fitted = written_query(f"SELECT 0 FROM q AS {_FITTED} ({', '.join(names)})", q=query)
        select = {**body(fitted["body"]), "projection": [{"UnnamedExpr": item} for item in items]}
        return {**fitted, "body": {"Select": select}}

    def _with_meanings(self, query: Json, targets: Sequence[Type]) -> Json:
        """Return a query of an INSERT with the values of its literals; in PostgreSQL, those of DISTINCT stay texts."""
        if kind(query["body"]) != "Select" or body(query["body"])["distinct"]:
            return query
        items = body(query["body"])["projection"]
        values = expressions_of(query["body"])
        found = [
            meaning(self._tree, value, to) if to is not None and takes_texts(to) else None
            for value, to in zip(values, targets, strict=False)
        ]
        if all(one is None for one in found):
            return query
        after = [item if one is None else _with_value(item, one) for item, one in zip(items, found, strict=False)]
        select = {**body(query["body"]), "projection": [*after, *items[len(after) :]]}
        return {**query, "body": {"Select": select}}

    def _items(self, query: Json) -> list[Json] | None:
        """Return the items of a SELECT whose rows do not depend on their values, else None."""
        plain = not (query["order_by"] or query["limit_clause"] or query["fetch"]) and kind(query["body"]) == "Select"
        if not plain or body(query["body"])["distinct"] or is_grouped(body(query["body"])):
            return None
        return body(query["body"])["projection"] if expressions_of(query["body"]) else None

    def _item(self, item: Json, target: Type) -> Json:
        name = kind(item)
        value = body(item) if name == "UnnamedExpr" else body(item)["expr"]
        after = self._value(value, target)
        return item if after is value else _with_value(item, after)

    def _values(self, values: Json, targets: Sequence[Type]) -> Json:
        rows = [[*map(self._value, row, targets), *row[len(targets) :]] for row in values["rows"]]
        same = all(all(map(is_, after, row)) for after, row in zip(rows, values["rows"], strict=True))
        return values if same else {**values, "rows": rows}

    def _value(self, value: Json, target: Type) -> Json:
        """Return a value that fits a column; the same object if DataFusion stores PostgreSQL's value."""
        if target is None:
            return value
        if pa.types.is_integer(target):
            return rounded(value, self._types)
        if pa.types.is_decimal(target):
            return self._decimals.stored(value)
        given = self._types.of(value)
        if takes_texts(target):
            if (found := meaning(self._tree, value, target)) is not None:
                return found
            check_type(self._tree, value, given, target)
        form = _form(given, target)
        return written(form, v=value) if form else value


def _with_value(item: Json, value: Json) -> Json:
    """Return an item of SELECT with another value."""
    name = kind(item)
    return {name: value if name == "UnnamedExpr" else {**body(item), "expr": value}}


def _form(given: Type, target: Type) -> str:
    """Return the expression that fits a value `v` of a type to a column, or an empty text."""
    if given is None or target is None:
        return ""
    if pa.types.is_integer(target):
        if pa.types.is_floating(given):
            return "__half_even(v)"
        return "round(v)" if pa.types.is_decimal(given) and given.scale else ""
    if target == INTERVAL and pa.types.is_duration(given):
        return f"{WITH_DAYS}(CAST(v AS INTERVAL))"
    return ""
