r"""Read the text of a `bytea` literal as PostgreSQL does: DataFusion keeps the signs of `\x6162` as they are."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.text_bytes import TEXT_BYTES, bytes_of
from flightllm.sql.nodes import NOWHERE, SPAN, Json, Node, body, kind, replaced
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import ExpressionTypes, arguments, function_name

_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})


def has_byte_cast(text: ParsedText) -> bool:
    """Return whether a text has a backslash, with which the form of bytes begins, or a cast of another value."""
    return "\\" in text.sql or any(
        token.is_word("bytea") and text.tokens[index - 2].kind is not TokenKind.STRING
        for index, token in enumerate(text.tokens)
    )


def byte_literals(tree: Tree, columns_of: TableColumns) -> Tree:
    r"""Rewrite `'\x6162'::bytea` as `X'6162'`, and `'a\000'::bytea` as `X'6100'`; `__text_bytes` reads other texts.

    The literal in `encode('\x61', 'hex')` means bytes, too.

    Raises:
        SqlError: the text of a literal has no such form.
    """
    types = ExpressionTypes(tree.root, columns_of)

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) == "Function" and function_name(fields) == "encode":
            return _with_bytes(node, read)
        if kind(node) != "Cast" or fields["data_type"] != "Bytea":
            return node
        if kind(fields["expr"]) != "Value":
            return written(f"{TEXT_BYTES}(v)", v=fields["expr"]) if types.of(fields["expr"]) == pa.string() else node
        return read(fields["expr"]) or node

    def read(node: Json) -> Node | None:
        """Return the literal of the bytes that a literal of text means, or None if it has no backslash."""
        value = body(node)["value"] if kind(node) == "Value" else {}
        if kind(value) not in _TEXTS or "\\" not in body(value):
            return None
        try:
            found = bytes_of(body(value))
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
