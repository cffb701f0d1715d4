"""Group operators as PostgreSQL does, and write the operators that DataFusion lacks or takes for others.

`^` is a power in PostgreSQL, and `#` the exclusive or of bits. DataFusion reads all that follows `IS DISTINCT FROM` as
its right side, so this predicate always gets parentheses.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from flightllm.sql.distinct_from import DISTINCT, NOT_DISTINCT, has_distinct_from
from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.operators import GROUP, operator_of
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.regrouping import regrouped
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import XOR, Tree, written

_PREDICATES: Final = (DISTINCT, NOT_DISTINCT)
_ENDS: Final = frozenset(
    {
        *("and", "or", "xor", "select", "distinct", "all", "from", "where", "on", "using", "having", "qualify"),
        *("by", "group", "order", "limit", "offset", "when", "then", "else", "end", "case", "set", "values", "as"),
        *("returning", "union", "intersect", "except", "join", "is", "filter", "over", "with", "asc", "desc"),
    }
)
"""Words between two expressions, or between two parts of one expression that no operator of these can join."""
_SUMS: Final = frozenset({"+", "-", "*", "/", "%"})
_OTHERS: Final = frozenset("~&|#@!?") | {"||", "~~", "~*", "~~*", "<<", ">>", "->", "->>", "@>", "<@", "&&", "!~", "^@"}
_WORDS: Final = frozenset({"in", "like", "ilike", "similar", "rlike", "regexp", "between", "collate"})
_CONDITIONS: Final = _WORDS | {"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"}
OPERATORS: Final = _CONDITIONS | _OTHERS | {"^", "distinct"}
"""A text that the pass can change has one of these words or marks."""


def can_differ(text: ParsedText) -> bool:
    """Return whether PostgreSQL and DataFusion could read an operator of a text in two ways."""
    if not text.marks.isdisjoint(("^", "#")) or has_distinct_from(text):
        return True
    if "~" in text.marks and any(_begins_operand(text, i) for i, t in enumerate(text.tokens) if t.is_symbol("~")):
        return True
    return any(map(_can_differ, _expressions(text)))


def _expressions(text: ParsedText) -> Iterator[list[str]]:
    """Yield the operators of each expression of a text, or of a part of it that is surely read in one way."""
    open_ones = [list[str]()]
    for token in text.tokens:
        if token.kind is TokenKind.SYMBOL:
            if token.text in "([":
                open_ones.append([])
            elif token.text in ")]" and len(open_ones) > 1:
                yield open_ones.pop()
            else:
                open_ones[-1].append(token.text)
        elif token.is_word(*_WORDS):
            open_ones[-1].append(token.text.lower())
        if token.is_symbol(",") or token.is_symbol(";") or token.is_word(*_ENDS):
            yield open_ones[-1]
            open_ones[-1] = []
    yield from open_ones


def _can_differ(operators: Sequence[str]) -> bool:
    if len(operators) < 2:
        return False
    conditions = sum(one in _CONDITIONS for one in operators)
    others = sum(one in _OTHERS for one in operators)
    joined = others and (conditions or not _SUMS.isdisjoint(operators) or len(set(operators) & _OTHERS) > 1)
    return conditions > 1 or bool(joined)


def _begins_operand(text: ParsedText, index: int) -> bool:
    """Return whether the operator at a token has no operand before it."""
    token = text.tokens[index - 1]
    if token.kind is TokenKind.SYMBOL:
        return token.text not in ")]"
    return token.is_word("not", *_ENDS, *_WORDS)


def precedence(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `2 * 3 ^ 2` as `2 * power(3, 2)`, and `a LIKE b = c` as `(a LIKE b) = c`.

    Raises:
        SqlError: two operators in a row have no meaning, such as `a < b < c`.
    """
    return tree.rebuilt(lambda node: regrouped(node, tree.position)).rebuilt(_rewritten)


def _rewritten(node: Node) -> Json:
    """Return a node as DataFusion must read it; its operands are already so."""
    name, fields = kind(node), body(node)
    if name == GROUP:
        return fields if operator_of(fields) is None else {"Nested": fields}
    if name == "BinaryOp" and fields["op"] == "BitwiseXor":
        return written("power(CAST(a AS DOUBLE), CAST(b AS DOUBLE))", a=fields["left"], b=fields["right"])
    if name == "BinaryOp" and fields["op"] == XOR:
        return {name: {**fields, "op": "BitwiseXor"}}
    if name == "UnaryOp" and fields["op"] == "BitwiseNot":
        return written("(v ^ -1)", v={"Nested": fields["expr"]})
    operator = operator_of(node)
    operands = [] if operator is None else [one for one in (operator.left, operator.right) if one is not None]
    if operator is None or not any(kind(one) in _PREDICATES for one in operands):
        return node
    return operator.with_operands(*({"Nested": one} if kind(one) in _PREDICATES else one for one in operands))
