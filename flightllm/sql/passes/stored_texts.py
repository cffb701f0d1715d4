r"""Read the texts that a change stores in columns of bytes, arrays and intervals, as PostgreSQL does.

DataFusion stores the signs of `'\x6162'`, and makes one element of `'{a,b}'`.
"""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from flightllm.common.array_texts import array_items
from flightllm.common.interval_texts import interval_of
from flightllm.common.type_names import type_name
from flightllm.errors import SqlError
from flightllm.functions.text_bytes import bytes_of
from flightllm.sql.literals import arrow_type, literal
from flightllm.sql.nodes import Json, Node, body, kind, unnested
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns, Type
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree, written
from flightllm.sql.types import INTERVAL, cast_type

_TEXTS: Final = frozenset({"SingleQuotedString", "EscapedStringLiteral"})
_HINTS: Final = {
    "array": "write ARRAY[…], or a text such as '{a,b}' or '{1,NULL}'",
    "bytea": r"write two hexadecimal digits for each byte after \x, or \\ for a backslash",
    "interval": "write a text such as '1 day 02:03:04'",
}


def has_default_text(text: ParsedText) -> bool:
    """Return whether a text can create a table with a text as the DEFAULT of a column."""
    return any(
        token.is_word("default") and text.tokens[index + 1 : index + 2] and _is_text(text, index + 1)
        for index, token in enumerate(text.tokens)
    )


def _is_text(text: ParsedText, index: int) -> bool:
    return text.tokens[index].kind is TokenKind.STRING or text.is_symbol(index, "(")


def default_texts(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `tags text[] DEFAULT '{}'` of CREATE TABLE with the value that its text means.

    Raises:
        SqlError: the text has another form.
    """

    def change(node: Node) -> Json:
        fields = body(node)
        if kind(node) != "CreateTable":
            return node
        return {"CreateTable": {**fields, "columns": [_column(tree, one) for one in fields["columns"]]}}

    return tree.rebuilt(change)


def _column(tree: Tree, column: Json) -> Json:
    target = cast_type(column["data_type"])
    if not takes_texts(target):
        return column
    options = []
    for one in column["options"]:
        option = one["option"]
        after = meaning(tree, body(option), target) if kind(option) == "Default" else None
        options.append(one if after is None else {**one, "option": {"Default": after}})
    return {**column, "options": options}


def takes_texts(target: Type) -> bool:
    """Return whether the text of a literal has a form of its own for the values of a type."""
    return target is not None and (pa.types.is_binary(target) or pa.types.is_list(target) or target == INTERVAL)


def meaning(tree: Tree, value: Json, target: pa.DataType) -> Json | None:
    """Return the value of a type that the literal of a text means; None for other values.

    Raises:
        SqlError: the text has another form.
    """
    inner = unnested(value)
    given = body(inner)["value"] if kind(inner) == "Value" else {}
    if kind(given) not in _TEXTS:
        return None
    text = str(body(given))
    if pa.types.is_binary(target):
        return _read(tree, value, "bytea", lambda: literal(pa.scalar(bytes_of(text), pa.binary())))
    if target == INTERVAL:
        return _read(tree, value, "interval", lambda: literal(pa.scalar(interval_of(text), INTERVAL)))
    return _read(tree, value, "array", lambda: _array(array_items(text), target))


def _read(tree: Tree, value: Json, name: str, read: Callable[[], str]) -> Json:
    try:
        return written(read())
    except (ValueError, OverflowError) as error:
        raise SqlError(
            f"the text at {tree.position(value)} has no form of a value of type {name}: {_HINTS[name]}"
        ) from error


def _array(items: list[Any], kind_: pa.DataType) -> str:
    """Return the array of a type with some items, as SQL."""
    inner = kind_.value_type
    if pa.types.is_list(inner):
        if any(not isinstance(one, list) for one in items):
            raise ValueError(items)
        parts = [_array(one, inner) for one in items]
    elif any(isinstance(one, list) for one in items):
        raise ValueError(items)
    else:
        parts = [_element(one, inner) for one in items]
    listed = f"[{', '.join(parts)}]" if parts else "make_array()"
    return f"arrow_cast({listed}, {arrow_type(kind_)})"


def _element(item: str | None, kind_: pa.DataType) -> str:
    if item is None:
        return "NULL"
    if pa.types.is_binary(kind_):
        return literal(pa.scalar(bytes_of(item), pa.binary()))
    if kind_ == INTERVAL:
        return literal(pa.scalar(interval_of(item), INTERVAL))
    return literal(pa.scalar(item, pa.string()))


def check_type(tree: Tree, value: Json, given: Type, target: pa.DataType) -> None:
    """Refuse a text from a column or a function where the changed column has bytes or arrays.

    Raises:
        SqlError: the value is a text.
    """
    if is_wrong(given, target):
        raise wrong_type(target, f"at {tree.position(value)} ")


def is_wrong(given: Type, target: Type) -> bool:
    """Return whether values of a type are texts, where a column has bytes or arrays."""
    if given is None or target is None or not (pa.types.is_binary(target) or pa.types.is_list(target)):
        return False
    return any(matches(given) for matches in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view))


def wrong_type(target: pa.DataType, place: str = "") -> SqlError:
    """Return the error for a text from a column or a function, where the changed column has bytes or arrays."""
    name = "BYTEA" if pa.types.is_binary(target) else type_name(target)
    hint = "CAST(… AS bytea)" if pa.types.is_binary(target) else "ARRAY[…] or string_to_array(…, ',')"
    return SqlError(f"the value {place}is a text, but its column has the type {name}: write {hint}")
