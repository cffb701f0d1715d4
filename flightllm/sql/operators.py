"""The operators of an expression's tree, and how tightly each of them binds in PostgreSQL."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from flightllm.sql.distinct_from import DISTINCT, NOT_DISTINCT
from flightllm.sql.nodes import Json, Node, body, kind

GROUP: Final = "Group"
"""The kind of an operand with a new group around it. No other pass sees this kind."""
_OR, _XOR, _AND, _NOT, _IS, _COMPARISON, _PATTERN, _OTHER = range(1, 9)
_SUM, _PRODUCT, _POWER, _AT, _COLLATE, _SIGN, _CAST = range(9, 16)
_UNCHAINED: Final = frozenset({_IS, _COMPARISON, _PATTERN})
"""The levels at which two operators in a row have no meaning."""
_INFIX: Final = {
    "Or": _OR,
    "Xor": _XOR,
    "And": _AND,
    **dict.fromkeys(("Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "Spaceship"), _COMPARISON),
    "Overlaps": _PATTERN,
    **dict.fromkeys(("Plus", "Minus"), _SUM),
    **dict.fromkeys(("Multiply", "Divide", "Modulo", "DuckIntegerDivide", "MyIntegerDivide"), _PRODUCT),
    "BitwiseXor": _POWER,
}
"""The level of each operator between two operands; all other operators have one level."""
_PREFIX: Final = {"Not": _NOT, "Plus": _SIGN, "Minus": _SIGN}
_PATTERNS: Final = frozenset({"Like", "ILike", "SimilarTo", "RLike"})
_Key = str | int | None
_Sides = tuple[tuple[_Key, ...], tuple[_Key, ...]]
_FIXED: Final[Mapping[str, tuple[int, _Sides]]] = {
    **dict.fromkeys(("IsNull", "IsNotNull", "IsTrue", "IsNotTrue", "IsFalse", "IsNotFalse"), (_IS, ((None,), ()))),
    **dict.fromkeys(("IsUnknown", "IsNotUnknown"), (_IS, ((None,), ()))),
    **dict.fromkeys(("InList", "InSubquery", "InUnnest"), (_PATTERN, (("expr",), ()))),
    **dict.fromkeys((DISTINCT, NOT_DISTINCT), (_IS, ((0,), (1,)))),
    "Between": (_PATTERN, (("expr",), ("high",))),
    "AtTimeZone": (_AT, (("timestamp",), ("time_zone",))),
    "Collate": (_COLLATE, (("expr",), ())),
}
"""The level and the operands of predicates by their fields; the key None means that the operand is all of the node."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: its level, and the fields of its operands on the left and on the right side."""

    node: Node
    level: int
    sides: _Sides
    """The key of the operand before the operator, and of that after it; empty where the operator has no operand."""

    @property
    def left(self) -> Json:
        """Return the operand before the operator, or None."""
        return self._operand(self.sides[0])

    @property
    def right(self) -> Json:
        """Return the operand after the operator, or None."""
        return self._operand(self.sides[1])

    @property
    def chains(self) -> bool:
        """Return whether two operators of the level can follow each other."""
        return self.level not in _UNCHAINED

    def _operand(self, keys: tuple[_Key, ...]) -> Json:
        if not keys:
            return None
        found = body(self.node)
        return found if keys[0] is None else found[keys[0]]

    def with_operands(self, *operands: Json) -> Node:
        """Return the node with other operands, in the order of the text."""
        name, fields = kind(self.node), body(self.node)
        keys = [key for side in self.sides for key in side]
        if keys == [None]:
            return {name: operands[0]}
        if isinstance(fields, dict):
            return {name: {**fields, **dict(zip(keys, operands, strict=True))}}
        return {name: list(operands)}


def operator_of(value: Json) -> Operator | None:
    """Return the operator of an expression, or None for another expression, such as a name or a call."""
    name = kind(value)
    found = _level_and_sides(name, body(value)) if name else None
    return None if found is None else Operator(value, *found)


def _level_and_sides(name: str, fields: Json) -> tuple[int, _Sides] | None:
    if name in _FIXED:
        return _FIXED[name]
    if name == "BinaryOp":
        return None if fields["op"] == "Assignment" else (_infix(fields["op"]), (("left",), ("right",)))
    if name == "UnaryOp":
        return _PREFIX.get(fields["op"], _OTHER), ((), ("expr",))
    if name in {"AnyOp", "AllOp"}:
        return _infix(fields["compare_op"]), (("left",), ())
    if name in _PATTERNS:  # ESCAPE and its character close the pattern
        return _PATTERN, (("expr",), () if fields.get("escape_char") else ("pattern",))
    return (_CAST, (("expr",), ())) if name == "Cast" and fields["kind"] == "DoubleColon" else None


def _infix(op: Json) -> int:
    return _INFIX.get(op, _OTHER) if isinstance(op, str) else _OTHER


def ungrouped(value: Json) -> Json:
    """Return an expression without marks of a new group around it."""
    while kind(value) == GROUP:
        value = body(value)
    return value


def is_grouped_well(operator: Operator) -> bool:
    """Return whether PostgreSQL reads the operands of an operator as its tree does, if it reads each operand so."""
    before, after = _open_to_right(operator.left), _open_to_left(operator.right)
    binds = all(one.level > operator.level or (one.level == operator.level and one.chains) for one in before)
    return binds and all(one.level > operator.level for one in after)


def _open_to_right(value: Json) -> Iterator[Operator]:
    """Yield the operators of an expression whose right operand is at its end."""
    while (operator := operator_of(ungrouped(value))) is not None and operator.right is not None:
        yield operator
        value = operator.right


def _open_to_left(value: Json) -> Iterator[Operator]:
    """Yield the operators of an expression whose left operand is at its begin."""
    while (operator := operator_of(ungrouped(value))) is not None and operator.left is not None:
        yield operator
        value = operator.left
