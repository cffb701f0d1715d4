"""Keep lists of one value apart: DataFusion merges `x IN (1) AND x IN (2)` to false. The result for a NULL is NULL.

It merges lists, and equalities under OR, of which each is another operand of AND or OR.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, text_of, written

_LITERALS: Final = (TokenKind.NUMBER, TokenKind.STRING, TokenKind.PLACEHOLDER)
_EQUALITIES: Final = ("=", "<>", "!=")
_TWO_LISTS: Final = 4


def has_two_lists(text: ParsedText) -> bool:
    """Return whether a text can compare one value with two lists: with IN, or with literals under OR."""
    weights = Counter[str]()
    for index, token in enumerate(text.tokens):
        if token.is_word("in"):
            weights[text.tokens[index - 1 - text.is_word(index - 1, "not")].text.lower()] += 2
        elif token.is_word("any", "some") and index > 1:
            weights[text.tokens[index - 2].text.lower()] += 2
        elif token.kind is TokenKind.SYMBOL and token.text in _EQUALITIES and index + 1 < len(text.tokens):
            sides = text.tokens[index - 1], text.tokens[index + 1]
            if any(side.kind in _LITERALS for side in sides):
                weights.update(side.text.lower() for side in sides if side.kind not in _LITERALS)
    return any(weight >= _TWO_LISTS for weight in weights.values())


def in_lists(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `x IN (1) AND x IN (2)` as `x IN (1) AND nullif(x, NULL) IN (2)`."""
    while True:
        depths = {key: depth for top in _tops(tree.root) for key, depth in _depths(top)}

        def change(node: Node, depths: Mapping[int, int] = depths) -> Json:
            return _apart(node, depths[id(node)]) if id(node) in depths else node

        changed = tree.rebuilt(change)
        if changed is tree:  # a list inside a changed list becomes a new object, and so has its turn after it
            return tree
        tree = changed


def _apart(node: Node, depth: int) -> Json:
    fields = body(node)
    side = "expr" if kind(node) == "InList" else _compared_side(fields)
    value = fields[side]
    for _ in range(depth):
        value = written("nullif(v, NULL)", v=value)
    return {kind(node): {**fields, side: value}}


def _tops(root: Json) -> Iterator[Node]:
    """Yield the outermost AND and OR of each condition."""
    inner = set[int]()
    for node in walk(root):
        if id(node) in inner:
            inner.update(map(id, _operands(node)))
        elif _is_connective(node):
            inner.update(map(id, _operands(node)))
            yield node


@dataclass(slots=True)
class _Group:
    """The comparisons of one value that have one meaning together, such as `x = 1 OR x IN (2, 3)`."""

    nodes: list[Node] = field(default_factory=list)

    def is_list(self) -> bool:
        return len(self.nodes) > 1 or kind(self.nodes[0]) == "InList"


def _depths(top: Node) -> Iterator[tuple[int, int]]:
    """Yield the comparisons of a condition that get another value, and how often it is wrapped."""
    groups = defaultdict[str, dict[tuple[int, int], _Group]](dict)
    todo = [(top, False, 0)]
    while todo:
        node, negated, run = todo.pop()
        if _is_connective(node):
            joins = (body(node)["op"] == "Or") != negated
            run = run if (run > 0) == joins and run else (id(node) if joins else -id(node))
        if operands := _operands(node):
            todo += [(one, negated != (kind(node) == "UnaryOp"), run) for one in reversed(operands)]
            continue
        fields = body(node)
        if kind(node) == "InList":
            negative, value = fields["negated"] != negated, fields["expr"]
        elif kind(node) == "BinaryOp" and fields["op"] in {"Eq", "NotEq"} and _compared_side(fields):
            negative, value = (fields["op"] == "NotEq") != negated, fields[_compared_side(fields)]
        else:
            continue
        merges = (run > 0) != negative
        key = (run, 0) if merges else (run, id(node))
        groups[text_of(unnested(value))].setdefault(key, _Group()).nodes.append(node)
    for found in groups.values():
        lists = [group for group in found.values() if group.is_list()]
        for depth, group in enumerate(lists):
            if depth:
                yield from ((id(node), depth) for node in group.nodes)


def _is_connective(node: Node) -> bool:
    return kind(node) == "BinaryOp" and body(node)["op"] in {"And", "Or"}


def _operands(node: Node) -> list[Node]:
    """Return the conditions that a node of AND, OR, NOT or parentheses joins."""
    if _is_connective(node):
        return [body(node)["left"], body(node)["right"]]
    if kind(node) == "UnaryOp" and body(node)["op"] == "Not":
        return [body(node)["expr"]]
    return [body(node)] if kind(node) == "Nested" else []


def _compared_side(fields: Json) -> str:
    """Return the side of an equality that is compared with a literal, or an empty text."""
    for side, other in (("left", "right"), ("right", "left")):
        if kind(unnested(fields[other])) == "Value" and kind(unnested(fields[side])) != "Value":
            return side
    return ""
