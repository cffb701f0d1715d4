"""Encode bytes in base64 as PostgreSQL does: DataFusion leaves out the signs `=` at the end."""

from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

_LINES: Final = r"rtrim(regexp_replace(encode(v, 'base64pad'), '(.{76})', '\1' || chr(10), 'g'), chr(10))"
"""A text in lines of 76 characters."""


def has_base64(text: ParsedText) -> bool:
    """Return whether a text names base64."""
    return "base64" in text.mentions


def base64_texts(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `encode(v, 'base64')` with `base64pad`, which has these signs, in lines of 76 characters."""
    return tree.rebuilt(_padded)


def _padded(node: Node) -> Json:
    if kind(node) != "Function" or function_name(body(node)) != "encode":
        return node
    given = arguments(body(node))
    if len(given) != 2 or kind(given[1]) != "Value" or body(given[1])["value"] != {"SingleQuotedString": "base64"}:
        return node
    return written(_LINES, v=given[0])
