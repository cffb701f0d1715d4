"""Read literals with a point as decimals beside decimals: as doubles, they lose digits after the 15th."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from operator import is_
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, columns, kind, parts, replaced, walk
from flightllm.sql.passes.decimal_sizes import ALIKE, SUMS, DecimalSizes, Size, alike_fits, common, fits, product_fits
from flightllm.sql.passes.exact_numbers import exact, is_inexact
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree
from flightllm.sql.types import ExpressionTypes, arguments, cast_type, function_name, is_decimal

BESIDE_DECIMALS: Final = frozenset(
    {
        *("+", "-", "*", "%", "=", "<", ">", "<=", ">=", "<>", "!=", "::", "cast", "try_cast", "in", "between", "case"),
        *("distinct", "any", "coalesce", "nullif", "greatest", "least", "nvl", "ifnull"),
    }
)
"""The words and marks of which a text must have one to use a literal beside a decimal."""
_Fit = Callable[[Sequence[Size]], bool]
_COMPARISONS: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship"})


def _product_fits(sizes: Sequence[Size]) -> bool:
    """Return whether a product of two values leaves room for its digits, whichever is the literal."""
    left, right = sizes
    return product_fits(left, right) or product_fits(right, left)


_FITS: Final[Mapping[str, _Fit]] = {**dict.fromkeys(SUMS, lambda sizes: fits(common(sizes))), "Multiply": _product_fits}
"""Tells for each operator whether its result leaves room for the digits of a literal."""


def decimal_literals(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `x + 0.01` for a decimal `x` as `x + CAST('0.01' AS DECIMAL(2, 2))`, and `0.1::numeric` in the same way.

    Also in comparisons, IN, BETWEEN, CASE, and functions such as coalesce. The operands of a division stay: DataFusion
    divides a decimal with fewer digits than a double has.
    """
    types = ExpressionTypes(tree.root, columns_of)
    if _has_decimals(tree.root, types):
        divided = _divided(tree.root)
        writer = DecimalWriter(types)
        tree = tree.rebuilt(lambda node: node if id(node) in divided else writer.changed(node))
    return tree.rebuilt(_cast)


def _has_decimals(root: Json, types: ExpressionTypes) -> bool:
    """Return whether a statement has a decimal beside its literals."""
    made = (node for node in walk(root) if kind(node) in {"Cast", "TypedString", "Function"} or _is_parameter(node))
    return any(is_decimal(types.of(one)) for one in chain(columns(root), made))


def _is_parameter(node: Node) -> bool:
    return kind(node) == "Value" and kind(body(node)["value"]) == "Placeholder"


def _divided(root: Json) -> Collection[int]:
    """Return the identities of the divisions, and of the nodes in them."""
    found = set[int]()
    todo = [(root, False)]
    while todo:
        value, inside = todo.pop()
        inside = inside or (kind(value) == "BinaryOp" and body(value)["op"] == "Divide")
        if inside:
            found.add(id(value))
        todo.extend((part, inside) for part in parts(value))
    return found


def _cast(node: Node) -> Json:
    """Return a cast of a literal to a decimal as a cast of its digits."""
    if kind(node) != "Cast" or body(node)["array"]:
        return node
    fields = body(node)
    target = cast_type(fields["data_type"])
    if target is None or not pa.types.is_decimal(target):
        return node
    after = exact(fields["expr"])
    return node if after is fields["expr"] else {"Cast": {**fields, "expr": after}}


class DecimalWriter:
    """Writes the literals beside decimals in one statement."""

    def __init__(self, types: ExpressionTypes) -> None:
        self._types = types
        self._sizes = DecimalSizes(types)
        self._writers: Mapping[str, Callable[[Json], Json | None]] = {
            "BinaryOp": self._operator,
            "Between": lambda fields: self._fields(fields, ("expr", "low", "high")),
            "InList": self._in_list,
            "IsDistinctFrom": self._pair,
            "IsNotDistinctFrom": self._pair,
            "Case": self._case,
            "Function": self._function,
        }

    def changed(self, node: Node) -> Json:
        """Return a node whose literals are decimals if its other operands are; the same object for other nodes."""
        write = self._writers.get(kind(node))
        after = write(body(node)) if write is not None else None
        return node if after is None else {kind(node): after}

    def stored(self, value: Json) -> Json:
        """Return a value that a column of decimals takes, with decimals in place of its literals.

        A value that is computed from anything but whole numbers and decimals stays.
        """
        if is_inexact(value):
            return exact(value)
        changes = dict[int, Json]()
        todo = [value]
        while todo:  # a chain of 1,000 operators is deeper than Python's recursion limit
            found = todo.pop()
            if is_inexact(found):
                changes[id(found)] = exact(found)
            else:
                todo += self._stored_parts(found)
        return replaced(value, changes) if changes else value

    def _stored_parts(self, value: Json) -> Sequence[Json]:
        """Return the parts of a stored value whose literals are decimals."""
        name = kind(value)
        fields: Json = body(value) if name else None
        match name:
            case "Nested":
                return (fields,)
            case "Case":
                other = () if fields["else_result"] is None else (fields["else_result"],)
                return (*(one["result"] for one in fields["conditions"]), *other)
            case "BinaryOp" if self._can_be_exact(fields):
                return (fields["left"], fields["right"])
            case "Function" if function_name(fields) in ALIKE and self._fit(given := arguments(fields)):
                return given
            case _:
                return ()

    def _operator(self, fields: Json) -> Json | None:
        operator = fields["op"]
        if operator in _COMPARISONS:
            return self._fields(fields, ("left", "right"))
        fit = _FITS.get(operator)
        return self._fields(fields, ("left", "right"), fit) if fit is not None else None

    def _can_be_exact(self, fields: Json) -> bool:
        """Return whether an operator over whole numbers and decimals leaves room for the digits of a literal."""
        sides = fields["left"], fields["right"]
        return (
            self._fit(sides, _product_fits) if fields["op"] == "Multiply" else fields["op"] in SUMS and self._fit(sides)
        )

    def _pair(self, sides: Sequence[Json]) -> Json | None:
        return self._alike(sides)

    def _in_list(self, fields: Json) -> Json | None:
        after = self._alike([fields["expr"], *fields["list"]])
        return None if after is None else {**fields, "expr": after[0], "list": after[1:]}

    def _fields(self, fields: Json, names: Sequence[str], fit: _Fit = alike_fits) -> Json | None:
        after = self._alike([fields[name] for name in names], fit)
        return None if after is None else {**fields, **dict(zip(names, after, strict=True))}

    def _case(self, fields: Json) -> Json | None:
        after = fields
        if fields["operand"] is not None:
            conditions = fields["conditions"]
            found = self._alike([fields["operand"], *(one["condition"] for one in conditions)])
            if found is not None:
                tests = [{**one, "condition": test} for one, test in zip(conditions, found[1:], strict=True)]
                after = {**fields, "operand": found[0], "conditions": tests}
        results = [one["result"] for one in after["conditions"]]
        other = [] if after["else_result"] is None else [after["else_result"]]
        if self._are_decimals([*results, *other]):
            after = self._results(after, exact) or after
        return None if after is fields else after

    def _results(self, fields: Json, change: Callable[[Json], Json]) -> Json | None:
        """Return a CASE with changed results; None if all are the same objects."""
        conditions = [{**one, "result": change(one["result"])} for one in fields["conditions"]]
        other = None if fields["else_result"] is None else change(fields["else_result"])
        pairs = zip(conditions, fields["conditions"], strict=True)
        if other is fields["else_result"] and all(one["result"] is before["result"] for one, before in pairs):
            return None
        return {**fields, "conditions": conditions, "else_result": other}

    def _function(self, fields: Json) -> Json | None:
        if function_name(fields) not in ALIKE:
            return None
        given = arguments(fields)
        after = self._alike(given)
        listed = body(fields["args"]) if after is not None else None
        if after is None or listed is None or len(listed["args"]) != len(given):
            return None
        return {**fields, "args": {"List": {**listed, "args": [{"Unnamed": {"Expr": one}} for one in after]}}}

    def _alike(self, values: Sequence[Json], fit: _Fit = alike_fits) -> list[Json] | None:
        """Return values whose literals are decimals; None if all stay."""
        if not self._are_decimals(values, fit):
            return None
        after = [exact(one) for one in values]
        return None if all(map(is_, after, values)) else after

    def _are_decimals(self, values: Sequence[Json], fit: _Fit = alike_fits) -> bool:
        """Return whether values are decimals and whole numbers, one of them a decimal and no literal, and fit."""
        others = [one for one in values if not is_inexact(one)]
        if len(others) == len(values) or not any(is_decimal(self._types.of(one)) for one in others):
            return False
        return self._fit(values, fit)

    def _fit(self, values: Sequence[Json], fit: _Fit = alike_fits) -> bool:
        """Return whether values are decimals and whole numbers that fit together."""
        sizes = [self._sizes.of(one) for one in values]
        known = [one for one in sizes if one is not None]
        return len(known) == len(sizes) and fit(known)
