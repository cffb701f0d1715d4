r"""Read the text of a `bytea` literal as PostgreSQL does: DataFusion keeps the signs of `\x6162` as they are."""

import re
from collections.abc import Callable
from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, replaced
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tree import Tree
from flightllm.sql.types import arguments, function_name

_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})
_ESCAPES: Final = re.compile(rb"\\(?:(\\)|([0-3][0-7]{2})|)")


def has_byte_escape(text: ParsedText) -> bool:
    """Return whether a text has a backslash, with which the form of bytes begins."""
    return "\\" in text.sql


def byte_literals(tree: Tree, _: TableColumns) -> Tree:
    r"""Rewrite `'\x6162'::bytea` as `X'6162'`, and `'a\000'::bytea` as `X'6100'`.

    The literal in `encode('\x61', 'hex')` means bytes, too.

    Raises:
        SqlError: the text of a literal has no such form.
    """

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) == "Function" and function_name(fields) == "encode":
            return _with_bytes(node, read)
        is_cast = kind(node) == "Cast" and fields["data_type"] == "Bytea"
        return read(fields["expr"]) or node if is_cast else node

    def read(node: Json) -> Node | None:
        """Return the literal of the bytes that a literal of text means, or None if it has no backslash."""
        value = body(node)["value"] if kind(node) == "Value" else {}
        if kind(value) not in _TEXTS or "\\" not in body(value):
            return None
        try:
            found = _bytes(body(value))
        except ValueError as error:
            raise SqlError(
                f"the bytes at {tree.position(node)} have a wrong form: write two hexadecimal digits for each byte"
                r" after \x, or \\ for a backslash"
            ) from error
        return {"Value": {"value": {"HexStringLiteral": found.hex()}, SPAN: NOWHERE}}

    return tree.rebuilt(change)


def _with_bytes(node: Node, read: Callable[[Json], Node | None]) -> Json:
    """Return a call whose first argument is the literal of bytes that `read` gives for it."""
    given = arguments(body(node))
    found = read(given[0]) if given else None
    return node if found is None else replaced(node, {id(given[0]): found})


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
