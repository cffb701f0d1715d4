"""Refuse whole numbers that leave the range of their type, as all databases do: DataFusion wraps them around."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, mul, sub
from typing import Final, NamedTuple

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.whole_numbers import ADDED, CHAINED, MULTIPLIED, SUBTRACTED, SUMMED
from flightllm.sql.nodes import Json, Node, body, kind, new_identifier, parts, replaced, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.exact_numbers import decimal_of
from flightllm.sql.passes.item_names import with_item_names
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tokens import Token, TokenKind
from flightllm.sql.tree import Tree, text_of, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name, other_aggregate

OPERATORS: Final = frozenset({"+", "-", "*"})
"""The signs of the operators whose result can leave the range."""
_MOST: Final[Mapping[str, Callable[[int, int], int]]] = {"Plus": add, "Minus": add, "Multiply": mul}
"""The greatest size of a result, by the sizes of its operands."""
_EXACT: Final[Mapping[str, Callable[[int, int], int]]] = {"Plus": add, "Minus": sub, "Multiply": mul}
_SIGNS: Final = {"Plus": "+", "Minus": "-", "Multiply": "*"}
_CHECKED: Final = {"Plus": ADDED, "Minus": SUBTRACTED, "Multiply": MULTIPLIED}
"""The functions for 64-bit numbers."""
_MOST_NESTED: Final = 8
"""The most operands of a chain of calls in calls."""
_QUERIES: Final = frozenset({"Subquery", "Exists", "InSubquery"})
_NAMES: Final = {16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_COUNTS: Final = frozenset({"count", "row_number", "rank", "dense_rank", "ntile"})
"""Functions that count rows, of which there are less than 2^31."""
_NO_OPERAND: Final = frozenset({"select", "distinct", "by", "when", "then", "else", "and", "or", "not", "where", "on"})
"""Words after which a sign begins a value."""
_TIMES: Final = frozenset({"interval", "date", "timestamp", "timestamptz", "time"})
"""Words that begin a time or an interval."""


class _Range(NamedTuple):
    """The values of an expression in DataFusion: its bits, its greatest size, and its value if that is constant."""

    bits: int
    most: int
    value: int | None = None


def has_integer_operator(text: ParsedText) -> bool:
    """Return whether a text can add, subtract or multiply two whole numbers that are not both literals."""
    tokens = text.tokens
    places = (at for at, one in enumerate(tokens) if one.kind is TokenKind.SYMBOL and one.text in OPERATORS)
    return not text.words.isdisjoint({"sum", "avg"}) or any(
        0 < at < len(tokens) - 1 and _is_between(*tokens[at - 1 : at + 2]) for at in places
    )


def _is_between(before: Token, sign: Token, after: Token) -> bool:
    """Return whether a sign can be between two whole numbers."""
    if before.kind is TokenKind.SYMBOL and before.text not in {")", "]"}:
        return False
    if sign.text == "*" and (after.text in {")", ","} or after.is_word("from")):
        return False
    if before.is_word(*_NO_OPERAND) or after.is_word(*_TIMES):
        return False
    numbers = [one for one in (before, after) if one.kind in {TokenKind.NUMBER, TokenKind.STRING}]
    return all(one.kind is TokenKind.NUMBER and one.text.isdecimal() for one in numbers)


def integer_ranges(tree: Tree, columns_of: TableColumns) -> Tree:
    """Rewrite `a * b` of two columns INT as `CAST(CAST(a AS BIGINT) * b AS INT)`, which fails outside the range.

    A result that always fits into the bits of DataFusion stays. `a * b` of columns BIGINT becomes a call that fails
    outside the range, and `sum(a)` becomes `__summed(sum(a), sum(a * 1e0))`: see the functions of whole numbers.
    `avg(a)` of columns BIGINT becomes the sum of decimals divided by their count: a sum of doubles loses digits.

    Raises:
        SqlError: an operator over literals has a result outside the range.
    """

    def checked(named: Tree) -> Tree:
        checker = _Checker(named, ExpressionTypes(named.root, columns_of))
        made = named.rebuilt(checker.changed)
        return Tree(made.sql, replaced(made.root, checker.long_chains)) if checker.long_chains else made

    return with_item_names(tree.rebuilt(_named_beside_star), columns_of, checked)


def _named_beside_star(node: Node) -> Json:
    """Return a SELECT with a star whose other items have names, which a view would take from our functions."""
    fields = body(node) if kind(node) == "Select" else {}
    items = fields.get("projection", [])
    if all(kind(one) in {"UnnamedExpr", "ExprWithAlias"} for one in items):
        return node
    texts = [text_of(body(one)) if _is_computed(one) else "" for one in items]
    made = [
        {"ExprWithAlias": {"expr": body(one), "alias": new_identifier(text)}}
        if text and texts.count(text) == 1
        else one
        for one, text in zip(items, texts, strict=True)
    ]
    return {"Select": {**fields, "projection": made}} if any(texts) else node


def _is_computed(item: Json) -> bool:
    value = unnested(body(item)) if kind(item) == "UnnamedExpr" else {}
    return kind(value) == "BinaryOp" and body(value)["op"] in _MOST


@dataclass(frozen=True, slots=True)
class _LongChain:
    """Operands, the steps between them, and the bits of the result; `end` is the operator at the end."""

    end: Json
    steps: str
    operands: Sequence[Json]
    bits: int

    def call(self, chains: "_LongChains") -> Json:
        """Return the chain as one call; its operands can have chains of their own."""
        numbers = written("make_array(v)", v=replaced(self.operands[0], chains))
        items = [{"Unnamed": {"Expr": written("CAST(v AS BIGINT)", v=replaced(one, chains))}} for one in self.operands]
        listed = {"Function": {**body(numbers), "args": {"List": {**body(body(numbers)["args"]), "args": items}}}}
        form = f"{CHAINED}('{self.steps}', l)"
        return written(form if self.bits == 64 else f"CAST({form} AS {_NAMES[self.bits]})", l=listed)


class _LongChains(dict[int, _LongChain | Json]):
    """Long chains by the identity of their ends; a look at one makes its call."""

    def __getitem__(self, key: int) -> Json:
        found = super().__getitem__(key)
        return found.call(self) if isinstance(found, _LongChain) else found


class _Checker:
    """Checks the ranges of the whole numbers of one statement."""

    def __init__(self, tree: Tree, types: ExpressionTypes) -> None:
        self._tree = tree
        self._types = types
        self._ranges = dict[int, tuple[Json, _Range]]()
        """The range of each operator by its identity; it stays alive, so no other object has its identity."""
        self._chains = dict[int, tuple[Json, str, list[Json]]]()
        """The steps and the operands of the chain that each operator ends, by its identity."""
        self.long_chains = _LongChains()
        """The operators that end long chains, by identity. Only the last one of a chain becomes a call."""

    def changed(self, node: Node) -> Json:
        """Return a node whose result is checked; the same object for a result that fits."""
        fields = body(node)
        if kind(node) == "Function" and function_name(fields) == "sum":
            return self._sum(node)
        if kind(node) == "Function" and function_name(fields) == "avg" and len(fields["name"]) == 1:
            return self._average(node)
        if kind(node) != "BinaryOp" or fields["op"] not in _MOST:
            return node
        left, right = self._range(fields["left"]), self._range(fields["right"])
        if left is None or right is None:
            return node
        bits, most = max(left.bits, right.bits), _MOST[fields["op"]](left.most, right.most)
        if left.value is not None and right.value is not None:
            value = _EXACT[fields["op"]](left.value, right.value)
            self._check(node, value, max(map(_literal_bits, (left.value, right.value))))
            return self._known(node, _Range(64, abs(value), value))
        if most < 1 << (bits - 1):
            return self._known(node, _Range(bits, most))
        return self._known(self._chained(fields, bits), _Range(bits, 1 << (bits - 1)))

    def _chained(self, fields: Json, bits: int) -> Json:
        """Return an operator as a call; a long chain is one call, because calls in calls would be nested too deep."""
        sign = _SIGNS[fields["op"]]
        _, steps, operands = self._chains.get(id(unnested(fields["left"])), (None, "", [fields["left"]]))
        steps, operands = f"{steps} {sign}{bits}", [*operands, fields["right"]]
        if len(operands) > _MOST_NESTED:
            after: Json = {"BinaryOp": fields}
            self.long_chains[id(after)] = _LongChain(after, steps.strip(), operands, bits)
        else:
            form = f"{_CHECKED[fields['op']]}(CAST(l AS BIGINT), CAST(r AS BIGINT))"
            if bits < 64:
                form = f"CAST(CAST(l AS BIGINT) {sign} CAST(r AS BIGINT) AS {_NAMES[bits]})"
            after = written(form, l=fields["left"], r=fields["right"])
        self._chains[id(after)] = after, steps, operands
        return after

    def _sum(self, node: Node) -> Json:
        """Return the sum of 64-bit numbers beside their sum as doubles, or their sum as decimals."""
        call = body(node)
        given = arguments(call)
        if len(given) != 1 or _bits(self._types.of(given[0])) != 64:
            return node
        one_by_one = not body(call["args"])["duplicate_treatment"] and not call.get("over")
        if one_by_one and all(map(_is_cheap, parts(call))):
            near = _summing(call, "CAST(v AS DOUBLE) * 1e0")
            return written(f"{SUMMED}(CAST(s AS BIGINT), near)", s=node, near=near)
        return written("CAST(s AS BIGINT)", s=_summing(call, "CAST(v AS DECIMAL(38, 0))"))

    def _average(self, node: Node) -> Json:
        """Return the average of 64-bit numbers as their sum as decimals divided by their count."""
        given = arguments(body(node))
        if len(given) != 1 or _bits(self._types.of(given[0])) != 64 or not all(map(_is_cheap, parts(body(node)))):
            return node
        exact = written("CAST(v AS DECIMAL(20, 0)) * CAST(1 AS DECIMAL(1, 0))", v=given[0])
        total = other_aggregate("sum", exact, node)
        count = other_aggregate("count", given[0], node)
        return {"Nested": written("CAST(s AS DOUBLE) / n", s=total, n=count)}

    def _known(self, after: Json, found: _Range) -> Json:
        self._ranges[id(after)] = after, found
        return after

    def _range(self, value: Json) -> _Range | None:
        """Return the range of an operand; None if it has another type."""
        inner = unnested(value)
        if (known := self._ranges.get(id(inner))) is not None:
            return known[1]
        literal = decimal_of(inner)
        if literal is not None:
            return _Range(64, abs(int(literal)), int(literal)) if _is_whole(inner) and abs(literal) < 1 << 63 else None
        bits = _bits(self._types.of(inner))
        if not bits:
            return None
        counts = kind(inner) == "Function" and function_name(body(inner)) in _COUNTS
        return _Range(bits, 1 << (31 if counts else bits - 1))

    def _check(self, node: Node, value: int, bits: int) -> None:
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            wider = "BIGINT" if bits == 32 else "NUMERIC"
            raise SqlError(
                f"the result {value} at {self._tree.position(node)} is out of range of {_NAMES[bits]}: write CAST(… AS"
                f" {wider}) around an operand"
            )


def _is_cheap(part: Json) -> bool:
    """Return whether a part of a call can be computed twice: it has no query, and only functions of operators."""
    calls = [function_name(body(one)) for one in walk(part) if kind(one) == "Function"]
    return set(calls) <= {*_CHECKED.values(), CHAINED, "make_array"} and not any(
        kind(one) in _QUERIES for one in walk(part)
    )


def _summing(call: Json, form: str) -> Json:
    """Return a call of `sum` over another form of its argument."""
    other = {"Unnamed": {"Expr": written(form, v=arguments(call)[0])}}
    return {"Function": {**call, "args": {"List": {**body(call["args"]), "args": [other]}}}}


def _literal_bits(value: int) -> int:
    return 32 if -(1 << 31) <= value < 1 << 31 else 64


def _bits(given: Type) -> int:
    """Return the bits of a type of whole numbers with a sign; 0 for other types."""
    is_integer = given is not None and pa.types.is_signed_integer(given)
    return max(given.bit_width, 16) if is_integer and given is not None else 0


def _is_whole(value: Json) -> bool:
    """Return whether a literal has neither a point nor an exponent."""
    while kind(value) in {"UnaryOp", "Nested"}:
        value = body(value)["expr"] if kind(value) == "UnaryOp" else body(value)
    return str(body(body(value)["value"])[0]).isdecimal()
