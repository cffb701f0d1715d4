"""Read `IS [NOT] DISTINCT FROM` as PostgreSQL does.

sqlparser-rs reads all that follows as its right side: `a IS DISTINCT FROM b AND c` as `a IS DISTINCT FROM (b AND c)`.
It also counts each of these predicates as a level of nesting, and refuses 50 levels. So its text has an operator in
their place, and the tree gets the predicates back.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, rebuilt
from flightllm.sql.parsed_text import ParsedText

DISTINCT, NOT_DISTINCT = "IsDistinctFrom", "IsNotDistinctFrom"
_OPERATORS: Final = {
    "<=>": "Spaceship",
    "~~*": "PGILikeMatch",
    "!~~*": "PGNotILikeMatch",
    "~~": "PGLikeMatch",
    "!~~": "PGNotLikeMatch",
}
"""Operators with the precedence of `=`, and their names in a tree; a text uses two that it does not have itself."""


def predicates(text: ParsedText) -> Iterator[tuple[int, int]]:
    """Yield the token ranges of `IS DISTINCT FROM` and `IS NOT DISTINCT FROM`."""
    for index, token in enumerate(text.tokens):
        if token.is_word("distinct") and text.is_word(index + 1, "from"):
            first = index - 1 - text.is_word(index - 1, "not")
            if text.is_word(first, "is"):
                yield first, index + 2


def has_distinct_from(text: ParsedText) -> bool:
    """Return whether a text has one of the predicates."""
    return "distinct" in text.words and next(predicates(text), None) is not None


def masked(text: ParsedText) -> tuple[str, Mapping[str, str]] | None:
    """Return a text with operators in place of the predicates, and the kind of predicate by the name of its operator.

    The text keeps its length and its lines. The result is None for a text that has too many of the operators itself.
    """
    found = list(predicates(text)) if "distinct" in text.words else []
    if not found:
        return text.sql, {}
    free = list(islice((operator for operator in _OPERATORS if operator not in text.sql), 2))
    if len(free) < 2:
        return None
    parts, at = list[str](), 0
    for first, last in found:
        start, end = text.tokens[first].start, text.tokens[last - 1].end
        operator = free[last - first - 3]
        blank = "".join(sign if sign in "\r\n" else " " for sign in text.sql[start:end])
        parts += (text.sql[at:start], operator, blank[len(operator) :])
        at = end
    parts.append(text.sql[at:])
    return "".join(parts), {_OPERATORS[free[0]]: DISTINCT, _OPERATORS[free[1]]: NOT_DISTINCT}


def unmasked(tree: Json, names: Mapping[str, str]) -> Json:
    """Return a tree with the predicates in place of their operators; see `masked`."""

    def change(node: Node) -> Json:
        if kind(node) == "BinaryOp" and (predicate := names.get(str(body(node)["op"]))):
            return {predicate: [body(node)["left"], body(node)["right"]]}
        return node

    return rebuilt(tree, change) if names else tree
