r"""Read the text of a `bytea` literal as PostgreSQL does: DataFusion keeps the signs of `\x6162` as they are."""

import re
from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree

_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})
_ESCAPES: Final = re.compile(rb"\\(?:(\\)|([0-3][0-7]{2})|)")


def has_byte_escape(text: ParsedText) -> bool:
    """Return whether a text has a backslash, with which the form of bytes begins."""
    return "\\" in text.sql


def byte_literals(tree: Tree, _: TableColumns) -> Tree:
    r"""Rewrite `'\x6162'::bytea` as `X'6162'`, and `'a\000'::bytea` as `X'6100'`.

    Raises:
        SqlError: the text of a literal has no such form.
    """

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "Cast" or fields["data_type"] != "Bytea" or kind(fields["expr"]) != "Value":
            return node
        value = body(fields["expr"])["value"]
        if kind(value) not in _TEXTS or "\\" not in body(value):
            return node
        try:
            found = _bytes(body(value))
        except ValueError as error:
            raise SqlError(
                f"the bytes at {tree.position(node)} have a wrong form: write two hexadecimal digits for each byte"
                r" after \x, or \\ for a backslash"
            ) from error
        return {"Value": {"value": {"HexStringLiteral": found.hex()}, SPAN: NOWHERE}}

    return tree.rebuilt(change)


def _bytes(text: str) -> bytes:
    """Return the bytes that a text means.

    Raises:
        ValueError: the text has no form of bytes.
    """
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return _ESCAPES.sub(_unescaped, text.encode())


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return b"\\"
    if not found[2]:
        raise ValueError(found.string)
    return bytes([int(found[2], 8)])
