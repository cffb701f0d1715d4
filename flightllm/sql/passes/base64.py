"""Write bytes in base 64 as PostgreSQL does: in lines of 76 signs, and with `=` at the end."""

from typing import Final

from flightllm.sql.nodes import Json, Node, body, kind, text_of_literal
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import arguments, function_name

FUNCTIONS: Final = frozenset({"encode", "decode"})
"""The functions that write and read the form."""
_WRITTEN: Final = {
    "encode": r"regexp_replace(encode(v, 'base64pad'), '(.{76})', '\1' || chr(10), 'g')",
    "decode": r"decode(regexp_replace(v, '\s', '', 'g'), 'base64')",
}


def has_base64(text: ParsedText) -> bool:
    """Return whether a text names base 64."""
    return "base64" in text.mentions


def base64(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `encode(b, 'base64')` so that DataFusion fills the last group and breaks the lines.

    `decode(t, 'base64')` reads a text without its line breaks.
    """
    return tree.rebuilt(_in_lines)


def _in_lines(node: Node) -> Json:
    text = _WRITTEN.get(function_name(body(node))) if kind(node) == "Function" else None
    given = arguments(body(node)) if text else []
    form = text_of_literal(given[1]) if len(given) == 2 else None
    if text is None or form is None or form.lower() != "base64":
        return node
    return written(text, v=given[0])
