"""One statement as a tree: parse it, replace parts, print it, and find its parts in the client's text.

`sqloxide` is sqlparser-rs in Python, one minor version behind DataFusion's own parser. The parser and the printer
recurse, and a thread's stack could overflow. So deep texts and trees go to a thread with a large stack.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import sqloxide

from flightllm.common.cached import cached_property
from flightllm.sql.complexity import Complexity, measure
from flightllm.sql.deep_stack import levels, on_large_stack
from flightllm.sql.distinct_from import masked, unmasked
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, is_query, kind, name_of, parts, rebuilt, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.tokens import position

DEEPEST: Final = 900
"""The greatest depth of a text that the caller's own thread parses; see `depth`.

A thread of the server has a stack of 8 MiB, or of 2 MiB where the system sets no limit. The parser survives twice this
depth on 2 MiB.
"""
_MOST_LEVELS: Final = 150
"""The most levels of a tree that the caller's own thread prints: it is 75 INTERSECTs, whose depth is 1,200."""
LONGEST: Final = 100_000
"""The most characters of a text that `parse` reads. The parser holds the interpreter for 2 ms in each 1,000."""
XOR: Final = "PGBitwiseXor"
"""The operator `#`, which the parser reads in another dialect only."""
_NESTED_WEIGHT: Final = 16
"""The depth of one level of parentheses: a nested call takes as much stack as some 6 chained operators."""


@dataclass(frozen=True)
class Tree:
    """The tree of one statement, and the text that it was parsed from."""

    sql: str
    root: Json

    def printed(self) -> str:
        """Return the statement as text, without comments, and with SQL's words in upper case."""
        text = _printed(self.root)
        return _printed(rebuilt(self.root, _with_signs_apart)) if "--" in text else text  # two would begin a comment

    def rebuilt(self, change: Callable[[Node], Json]) -> "Tree":
        """Return a tree in which `change` has replaced nodes, or this object without a change; see `nodes.rebuilt`."""
        root = rebuilt(self.root, change)
        return self if root is self.root else replace(self, root=root)

    @cached_property
    def _lines(self) -> Sequence[int]:
        """Return the offset at which each line begins."""
        return [0, *(found.end() for found in re.finditer("\n", self.sql))]

    def spans(self, value: Json) -> Iterator[tuple[int, int]]:
        """Yield the places in the text of the identifiers and literals of a value, in any order.

        A part that a pass has added has no place.
        """
        todo = [value]
        while todo:
            found = todo.pop()
            span = found.get(SPAN) if isinstance(found, dict) else None
            if span is not None and span["start"]["line"]:
                yield self._offset(span["start"]), self._offset(span["end"])
            todo.extend(parts(found))

    def position(self, value: Json) -> str:
        """Return the `line:column` of the first identifier or literal of a value, or of the begin of the text."""
        return position(self.sql, min((start for start, _ in self.spans(value)), default=0))

    def _offset(self, place: Mapping[str, int]) -> int:
        return self._lines[place["line"] - 1] + place["column"] - 1


def _printed(root: Json) -> str:
    found = levels(root)
    if found > _MOST_LEVELS:
        (text,) = on_large_stack(found, lambda: sqloxide.restore_ast(ast=[root]))
    else:
        (text,) = sqloxide.restore_ast(ast=[root])
    return str(text)


def _with_signs_apart(node: Node) -> Json:
    fields = body(node)
    if kind(node) != "UnaryOp" or fields["op"] != "Minus" or kind(fields["expr"]) != "UnaryOp":
        return node
    return {"UnaryOp": {**fields, "expr": {"Nested": fields["expr"]}}}


def depth(complexity: Complexity) -> int:
    """Return how deep the parser recurses into a text; a chained operator counts 2."""
    return complexity.deepest + _NESTED_WEIGHT * complexity.nested_parentheses


def parse(text: ParsedText) -> Tree | None:
    """Return the tree of a statement, or None for a text that the parser does not read.

    These are texts that are too long, some of the server's own statements, and forms of other dialects.
    """
    if len(text.sql) > LONGEST or (read := masked(text)) is None:
        return None
    sql, predicates = read
    places = [token.start for token in text.tokens if token.is_symbol("#")]
    if places and "^" in text.marks:
        return None
    found, shown = depth(measure(text.tokens)), _with_power(sql, places)
    root = _statement(shown) if found <= DEEPEST else on_large_stack(found, lambda: _statement(shown))
    if root is None:
        return None
    tree = Tree(text.sql, unmasked(root, predicates))
    return tree.rebuilt(_as_xor) if places else tree


def fault(text: ParsedText) -> str:
    """Return why `parse` does not read a text."""
    try:
        on_large_stack(depth(measure(text.tokens)), lambda: sqloxide.parse_sql(sql=text.sql, dialect="generic"))
    except ValueError as error:
        return " ".join(str(error).split())
    return "it is too long"


@lru_cache(maxsize=256)
def parse_query(sql: str) -> Json:
    """Return the body of a query that a pass wrote; its parts have no place in the client's text.

    Passes write the same few texts again and again, and no step changes a tree in place.

    Raises:
        ValueError: the text is not one query.
    """
    return _without_places(_query(sql)["body"])


def _with_power(sql: str, places: Sequence[int]) -> str:
    """Return a text with `^` at some places: the parser reads this operator, and a pass its meaning."""
    signs = list(sql)
    for place in places:
        signs[place] = "^"
    return "".join(signs)


def _as_xor(node: Node) -> Json:
    fields = body(node)
    if kind(node) != "BinaryOp" or fields["op"] != "BitwiseXor":
        return node
    return {"BinaryOp": {**fields, "op": XOR}}


def written(text: str, **given: Json) -> Json:
    """Return the expression of a text in which each name stands for a given expression, or a table for a query."""

    def placed(node: Node) -> Json:
        fields = body(node)
        if kind(node) == "Identifier":
            return given.get(name_of(fields), node)
        if kind(node) == "Table" and is_query(fields["name"][-1]):  # the identifier in the name is replaced already
            rows = fields["name"][-1]
            return {"Derived": {"lateral": False, "subquery": rows, "alias": fields["alias"], "sample": None}}
        return node

    return rebuilt(body(body(parse_query(f"SELECT {text}"))["projection"][0]), placed)


def written_query(text: str, **given: Json) -> Json:
    """Return the query of a text, with its WITH and ORDER BY; its names stand for the same as in `written`."""
    return body(written(f"({text})", **given))


def text_of(expression: Json) -> str:
    """Return an expression as text."""
    query = _query("SELECT 0")
    select = {**body(query["body"]), "projection": [{"UnnamedExpr": expression}]}
    return Tree("", {"Query": {**query, "body": {"Select": select}}}).printed().removeprefix("SELECT ")


def _query(sql: str) -> Json:
    statement = _statement(sql)
    if statement is None or kind(statement) != "Query":
        raise ValueError(f"not a query: {sql}")
    return body(statement)


def _statement(sql: str) -> Json | None:
    try:
        found = sqloxide.parse_sql(sql=sql, dialect="generic")
    except ValueError:
        return None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # a fault of the parser; its class is not an Exception
            raise
        return None
    return found[0] if len(found) == 1 else None


def _without_places(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: NOWHERE if key == SPAN else _without_places(part) for key, part in value.items()}
    return type(value)(map(_without_places, value)) if isinstance(value, list | tuple) else value


def with_numbers(tree: Tree) -> Tree:
    """Return a tree with `$1`, `$2`, … for each `?` of its text: a pass can move a parameter, or copy it."""
    found = [node for node in walk(tree.root) if _is_mark(node)] if "?" in tree.sql else []
    places = sorted(start for node in found for start, _ in tree.spans(node))
    numbers = {start: number for number, start in enumerate(places, 1)}

    def change(node: Node) -> Json:
        if not _is_mark(node):
            return node
        ((start, _),) = tree.spans(node)
        return {"Value": {**body(node), "value": {"Placeholder": f"${numbers[start]}"}}}

    return tree.rebuilt(change) if found else tree


def _is_mark(node: Node) -> bool:
    return kind(node) == "Value" and body(node)["value"] == {"Placeholder": "?"}
