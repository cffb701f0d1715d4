"""Compare rows column by column, as PostgreSQL does: DataFusion orders NULL before other values in a row."""

from collections.abc import Sequence
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.sql.calls import EXPRESSION_FOLLOWS
from flightllm.sql.distinct_from import DISTINCT, NOT_DISTINCT
from flightllm.sql.nodes import Json, Node, body, kind, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree
from flightllm.sql.types import arguments, function_name

COMPARED: Final = frozenset({"in", "not", "is", "between", "=", "==", "<>", "!=", "<", "<=", ">", ">="})
"""The words and signs that can follow a row."""
_ORDERS: Final = {"Lt": "Lt", "LtEq": "Lt", "Gt": "Gt", "GtEq": "Gt"}
"""The operators that order rows, and the operator of all columns but the last one."""
_UNLIKE: Final = frozenset({("AnyOp", "NotEq"), ("AllOp", "Eq")})
"""Comparisons with a subquery that ask for a row that differs."""
_QUANTIFIED: Final = frozenset({"AnyOp", "AllOp"})
_EACH: Final = {DISTINCT: "Or", NOT_DISTINCT: "And", "IsNull": "And", "IsNotNull": "And"}
"""Predicates that hold for each column or for one, and what joins the columns."""


def has_row_comparison(text: ParsedText) -> bool:
    """Return whether a text can compare a row such as `(a, b)`."""
    for opening, closing in text.closing.items():
        after = text.tokens[closing + 1] if closing + 1 < len(text.tokens) else None
        if after is not None and after.text.lower() in COMPARED and _is_row(text, opening, closing):
            return True
    return False


def _is_row(text: ParsedText, opening: int, closing: int) -> bool:
    before = text.tokens[opening - 1] if opening else None
    named = before is not None and before.kind in {TokenKind.WORD, TokenKind.QUOTED}
    if before is not None and named and not before.is_word("row", *EXPRESSION_FOLLOWS):
        return False
    around = text.scopes.around
    return any(text.is_symbol(index, ",") and around[index] == opening for index in range(opening + 1, closing))


def row_comparisons(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `(a, b) = (1, 2)` as `a = 1 AND b = 2`, and `(a, b) < (1, 2)` as `a < 1 OR a = 1 AND b < 2`.

    Raises:
        UnsupportedError: `(a, b) <> ANY` or `= ALL` has a subquery, which DataFusion compares as one value.
    """
    for node in walk(tree.root):
        if (kind(node), body(node)["compare_op"] if kind(node) in _QUANTIFIED else "") in _UNLIKE:
            fields = body(node)
            if _columns(unnested(fields["left"])) and kind(unnested(fields["right"])) == "Subquery":
                raise UnsupportedError(
                    f"the comparison of a row with rows at {tree.position(node)} is not supported: write"
                    " EXISTS (SELECT 1 FROM … WHERE a <> x OR b <> y) or NOT EXISTS (…)"
                )
    return tree.rebuilt(_by_column)


def _by_column(node: Node) -> Json:
    name, fields = kind(node), body(node)
    if name == "BinaryOp":
        rows = _rows(fields["left"], fields["right"])
        return node if rows is None or fields["op"] not in {"Eq", "NotEq", *_ORDERS} else _compared(fields["op"], *rows)
    if name == "InList":
        return _in_rows(node)
    if name == "Between":
        rows = _rows(fields["expr"], fields["low"], fields["high"])
        if rows is None:
            return node
        value, low, high = rows
        found = _joined("And", [_compared("GtEq", value, low), _compared("LtEq", value, high)])
        return _negated(found) if fields["negated"] else found
    if name in _EACH:
        sides = fields if name in {DISTINCT, NOT_DISTINCT} else [fields]
        rows = _rows(*sides)
        if rows is None:
            return node
        tests = [{name: list(values) if len(values) > 1 else values[0]} for values in zip(*rows, strict=True)]
        return _joined(_EACH[name], [{"Nested": one} for one in tests])
    return node


def _in_rows(node: Node) -> Json:
    fields = body(node)
    rows = _rows(fields["expr"], *fields["list"])
    if rows is None:
        return node
    found = _joined("Or", [_compared("Eq", rows[0], row) for row in rows[1:]])
    return _negated(found) if fields["negated"] else found


def _rows(*values: Json) -> list[list[Json]] | None:
    """Return the columns of rows, or None if a value is not a row, or if their numbers of columns differ."""
    rows = [_columns(unnested(value)) for value in values]
    return rows if rows[0] and all(len(one) == len(rows[0]) for one in rows) else None


def _columns(value: Json) -> list[Json]:
    if kind(value) == "Function" and function_name(body(value)) == "row":
        return arguments(body(value))
    return list(body(value)) if kind(value) == "Tuple" else []


def _compared(op: str, left: Sequence[Json], right: Sequence[Json]) -> Node:
    pairs = list(zip(left, right, strict=True))
    if op not in _ORDERS:
        return _joined("And" if op == "Eq" else "Or", [_operator(op, *pair) for pair in pairs])
    *others, last = pairs
    found = _operator(op, *last)
    for pair in reversed(others):
        equal = _joined("And", [_operator("Eq", *pair), found])
        found = _joined("Or", [_operator(_ORDERS[op], *pair), equal])
    return found


def _operator(op: str, left: Json, right: Json) -> Node:
    return {"BinaryOp": {"left": _closed(left), "op": op, "right": _closed(right)}}


def _closed(value: Json) -> Json:
    """Return a value in parentheses, unless it is a name, a literal or a call."""
    plain = kind(value) in {"Identifier", "CompoundIdentifier", "Value", "Function", "Nested"}
    return value if plain else {"Nested": value}


def _joined(op: str, conditions: Sequence[Json]) -> Node:
    found = conditions[0]
    for condition in conditions[1:]:
        found = {"BinaryOp": {"left": found, "op": op, "right": condition}}
    return {"Nested": found}


def _negated(condition: Node) -> Node:
    return {"Nested": {"UnaryOp": {"op": "Not", "expr": condition}}}
