r"""Let regular expressions match and replace as in PostgreSQL: a point matches a newline, and `\&` is the match."""

import re
from typing import Final

from flightllm.errors import UnsupportedError
from flightllm.functions.text_parts import can_miss
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, unnested
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
_REPLACED: Final = re.compile(r"\\([0-9&\\])|\$")
"""The parts of a replacement with a meaning in PostgreSQL or here."""
_COMPUTED: Final = r"replace(replace(v, '$', '$$'), '\&', '\0')"
_BY_LINE: Final = re.compile("[nmp]")
"""The flags with which a point matches no newline."""


def regular_expressions(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `x ~ 'a.b'` as `x ~ ('(?s)' || 'a.b')`, also in `regexp_replace` and other functions.

    Raises:
        UnsupportedError: `regexp_match` has a group that can have no match.
    """
    return tree.rebuilt(lambda node: _with_newlines(_replacing(node, tree)))


def _replacing(node: Node, tree: Tree) -> Json:
    r"""Return `regexp_replace(a, b, '\&$')` as `regexp_replace(a, b, '${0}$$')`."""
    name = function_name(body(node)) if kind(node) == "Function" else ""
    given = arguments(body(node)) if name in {"regexp_match", "regexp_replace"} else []
    if name == "regexp_match" and len(given) > 1 and can_miss(_literal(given[1]) or ""):
        raise UnsupportedError(
            f"regexp_match at {tree.position(node)} has a group that can have no match, and its place in the list would"
            " be lost: write (a|b) in place of (a)|(b), and (a?) in place of (a)?"
        )
    if name != "regexp_replace" or len(given) < 3:
        return node
    text = _literal(given[2])
    if text is not None and not _REPLACED.search(text):
        return node
    if text is None:
        value: Json = written(_COMPUTED, v=given[2])
    else:
        value = {"Value": {"value": {"SingleQuotedString": _REPLACED.sub(_as_here, text)}, SPAN: NOWHERE}}
    fields, listed = body(node), body(body(node)["args"])
    changed = [*listed["args"][:2], {"Unnamed": {"Expr": value}}, *listed["args"][3:]]
    return {"Function": {**fields, "args": {"List": {**listed, "args": changed}}}}


def _as_here(found: re.Match[str]) -> str:
    sign = found[1]
    if sign is None:
        return "$$"
    # A name that no group has is an empty text: it keeps the backslash apart from a digit.
    return "\\${_}" if sign == "\\" else f"${{{0 if sign == '&' else sign}}}"


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
