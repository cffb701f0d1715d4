"""Let the point of a regular expression match a newline, as PostgreSQL does."""

import re
from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

MATCHES: Final = frozenset(
    {
        *("~", "!~", "~*", "!~*"),
        *("regexp_replace", "regexp_match", "regexp_like", "regexp_count", "regexp_instr"),
    }
)
"""The operators, and the functions whose second argument is a pattern."""
_OPERATORS: Final = frozenset({"PGRegexMatch", "PGRegexIMatch", "PGRegexNotMatch", "PGRegexNotIMatch"})
_FLAGS: Final = {"regexp_replace": 3, "regexp_match": 2, "regexp_like": 2, "regexp_count": 3, "regexp_instr": 5}
"""The place of the flags of each function."""
_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})
_NOT_POINTS: Final = re.compile(r"\\.|\[\^?\]?[^\]]*\]", re.DOTALL)
"""The parts of a pattern that hide a point: a sign after a backslash, and a set of signs."""
_BY_LINE: Final = re.compile("[nmp]")
"""The flags with which a point matches no newline."""


def regular_expressions(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `x ~ 'a.b'` as `x ~ ('(?s)' || 'a.b')`, also in `regexp_replace` and other functions."""
    return tree.rebuilt(_with_newlines)


def _with_newlines(node: Node) -> Json:
    fields = body(node)
    if kind(node) == "BinaryOp" and fields["op"] in _OPERATORS:
        return {"BinaryOp": {**fields, "right": _over_lines(fields["right"])}} if _has_point(fields["right"]) else node
    place = _FLAGS.get(function_name(fields)) if kind(node) == "Function" else None
    given = arguments(fields) if place is not None else []
    if place is None or len(given) < 2 or not _has_point(given[1]):
        return node
    flags = _literal(given[place]) if len(given) > place else None
    if flags is not None and _BY_LINE.search(flags):
        return node
    listed = body(fields["args"])
    pattern = {"Unnamed": {"Expr": _over_lines(given[1])}}
    return {
        "Function": {
            **fields,
            "args": {"List": {**listed, "args": [listed["args"][0], pattern, *listed["args"][2:]]}},
        }
    }


def _over_lines(pattern: Json) -> Node:
    """Return a pattern whose points match newlines; a literal stays one, because changes of rows need literals."""
    text = _literal(pattern)
    if text is None:
        return {"Nested": written("'(?s)' || v", v={"Nested": pattern})}
    value = body(unnested(pattern))
    return {"Value": {**value, "value": {kind(value["value"]): f"(?s){text}"}}}


def _has_point(pattern: Json) -> bool:
    """Return whether a pattern can have a point that matches any sign."""
    text = _literal(pattern)
    return text is None or ("(?s" not in text and "." in _NOT_POINTS.sub("", text))


def _literal(value: Json) -> str | None:
    inner = unnested(value)
    found: Json = body(inner)["value"] if kind(inner) == "Value" else None
    return str(body(found)) if kind(found) in _TEXTS else None
