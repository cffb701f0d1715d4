"""Read literals with a point as decimals beside decimals: as doubles, they lose digits after the 15th."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Final

import pyarrow as pa

from flightllm.sql.nodes import Json, Node, body, kind, unnested, walk
from flightllm.sql.passes.exact_numbers import exact, is_inexact
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree
from flightllm.sql.types import ExpressionTypes, arguments, cast_type, function_name

BESIDE_DECIMALS: Final = frozenset(
    {
        *("+", "-", "*", "%", "=", "<", ">", "<=", ">=", "<>", "!=", "::", "cast", "try_cast", "in", "between", "case"),
        *("distinct", "any", "coalesce", "nullif", "greatest", "least", "nvl", "ifnull"),
    }
)
"""The words and marks of which a text must have one to use a literal beside a decimal."""
_SUMS: Final = frozenset({"Plus", "Minus", "Modulo"})
_COMPARISONS: Final = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship"})
_ALIKE: Final = frozenset({"coalesce", "nullif", "greatest", "least", "nvl", "ifnull"})
"""Functions whose arguments have one type."""
_KEPT: Final = _ALIKE | {"sum", "min", "max", "abs"}
"""Functions that return a decimal for decimals."""
_MOST_DIGITS: Final = 18
"""The most digits after the point that leave room for the others: a decimal has 38."""


def decimal_literals(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `x + 0.01` for a decimal `x` as `x + CAST('0.01' AS DECIMAL(2, 2))`, and `0.1::numeric` in the same way.

    Also in comparisons, IN, BETWEEN, CASE, and functions such as coalesce. The operands of a division stay: DataFusion
    divides a decimal with fewer digits than a double has.
    """
    types = ExpressionTypes(tree.root, columns_of)
    divided = {id(part) for node in walk(tree.root) if _is_division(node) for part in walk(node)}
    writer = DecimalWriter(types)
    changed = tree.rebuilt(lambda node: node if id(node) in divided else writer.changed(node))
    return changed.rebuilt(_cast)


def _is_division(node: Node) -> bool:
    return kind(node) == "BinaryOp" and body(node)["op"] == "Divide"


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
        name = kind(value)
        fields: Json = body(value) if name else None
        if is_inexact(value):
            return exact(value)
        if name == "Nested":
            after = self.stored(fields)
            return value if after is fields else {name: after}
        if name == "Case":
            found = self._results(fields, self.stored)
            return value if found is None else {name: found}
        whole = name == "BinaryOp" and fields["op"] in _SUMS | {"Multiply"}
        if not whole or any(self._scale(fields[side]) is None for side in ("left", "right")):
            return value
        sides = {side: self.stored(fields[side]) for side in ("left", "right")}
        same = all(sides[side] is fields[side] for side in sides)
        return value if same else {name: {**fields, **sides}}

    def _operator(self, fields: Json) -> Json | None:
        operator = fields["op"]
        if operator in _SUMS or operator in _COMPARISONS:
            return self._fields(fields, ("left", "right"))
        if operator != "Multiply":
            return None
        digits = [self._scale(fields[side]) for side in ("left", "right")]
        fits = sum(one for one in digits if one is not None) <= _MOST_DIGITS
        return self._fields(fields, ("left", "right")) if fits else None

    def _pair(self, sides: Sequence[Json]) -> Json | None:
        return self._alike(sides)

    def _in_list(self, fields: Json) -> Json | None:
        after = self._alike([fields["expr"], *fields["list"]])
        return None if after is None else {**fields, "expr": after[0], "list": after[1:]}

    def _fields(self, fields: Json, names: Sequence[str]) -> Json | None:
        after = self._alike([fields[name] for name in names])
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
        if function_name(fields) not in _ALIKE:
            return None
        given = arguments(fields)
        after = self._alike(given)
        listed = body(fields["args"]) if after is not None else None
        if after is None or listed is None or len(listed["args"]) != len(given):
            return None
        return {**fields, "args": {"List": {**listed, "args": [{"Unnamed": {"Expr": one}} for one in after]}}}

    def _alike(self, values: Sequence[Json]) -> list[Json] | None:
        """Return values whose literals are decimals; None if all stay."""
        if not self._are_decimals(values):
            return None
        after = [exact(one) for one in values]
        return None if all(map(is_, after, values)) else after

    def _are_decimals(self, values: Sequence[Json]) -> bool:
        """Return whether values are decimals and whole numbers, one of them a decimal and no literal."""
        if not any(map(is_inexact, values)):
            return False
        digits = [self._scale(one) for one in values]
        if None in digits or max((one for one in digits if one is not None), default=0) > _MOST_DIGITS:
            return False
        return any(self._is_decimal(one) for one in values if not is_inexact(one))

    def _is_decimal(self, value: Json) -> bool:
        given = self._types.of(value)
        return given is not None and bool(pa.types.is_decimal(given))

    def _scale(self, value: Json) -> int | None:
        """Return how many digits after the point DataFusion gives a decimal or a whole number; None for a double."""
        return _scale(unnested(value), self._types)


def _scale(value: Json, types: ExpressionTypes) -> int | None:
    name = kind(value)
    fields: Json = body(value) if name else None
    if is_inexact(value):
        made = exact(value)
        given = cast_type(body(made)["data_type"]) if made is not value else None
        return given.scale if given is not None else None
    match name:
        case "UnaryOp" if fields["op"] in {"Minus", "Plus"}:
            return _scale(unnested(fields["expr"]), types)
        case "BinaryOp" if fields["op"] in _SUMS | {"Multiply"}:
            return _most(_sides(fields), types, add=fields["op"] == "Multiply")
        case "Function" if function_name(fields) in _KEPT:
            return _most(arguments(fields), types)
        case "Case":
            other = [] if fields["else_result"] is None else [fields["else_result"]]
            return _most([*(one["result"] for one in fields["conditions"]), *other], types)
        case "Identifier" | "CompoundIdentifier" | "Cast" | "Value" | "Subquery" | "Function":
            given = types.of(value)
            if given is None or not (
                pa.types.is_integer(given) or pa.types.is_decimal(given) or pa.types.is_null(given)
            ):
                return None
            if name == "Function" and not pa.types.is_integer(given):
                return None
            return given.scale if pa.types.is_decimal(given) else 0
        case _:
            return None


def _sides(fields: Json) -> Iterator[Json]:
    yield fields["left"]
    yield fields["right"]


def _most(values: Sequence[Json] | Iterator[Json], types: ExpressionTypes, *, add: bool = False) -> int | None:
    digits = [_scale(unnested(one), types) for one in values]
    known = [one for one in digits if one is not None]
    if len(known) < len(digits):
        return None
    return sum(known) if add else max(known, default=0)
