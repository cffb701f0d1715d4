"""Parser for CREATE, DROP and SHOW of functions, and for the names of a function's parameters in its expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from flightllm.common.names import DEFAULT_SCHEMA, TableName
from flightllm.errors import InvalidInputError, SqlError, UnsupportedError
from flightllm.sql.arguments import read_constant
from flightllm.sql.cursor import Cursor
from flightllm.sql.expressions import names_in
from flightllm.sql.names import identifier, read_parts
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind, closing_parenthesis

FUNCTIONS: Final = TableName("system", "functions")
_FUNCTION: Final = (
    "write CREATE [OR REPLACE] FUNCTION name [(parameter type, …)] AS ai_filter('Is {t} spam?', t)"
    " [WITH (accuracy = 0.9, …)]"
)
_DROP: Final = "write DROP FUNCTION [IF EXISTS] name"
_SHOW: Final = "write SHOW USER FUNCTIONS, or SELECT … FROM system.functions"


def read_function_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it creates, drops or shows functions that SQL created, else None.

    Raises:
        SqlError: a part is missing, or unexpected text follows the statement.
        UnsupportedError: the function is of a kind that the server does not make.
    """
    cursor = Cursor(tokens, 0)
    if cursor.take("show", "user", "functions"):
        cursor.end(_SHOW)
        return Statement("query", text, query=f"SELECT * FROM {FUNCTIONS.sql}")
    if cursor.take("drop", "function"):
        return _dropped(cursor, text)
    if not cursor.take("create"):
        return None
    replaces = cursor.take("or", "replace")
    return _created(cursor, text, replaces=replaces) if cursor.take("function") else None


def _dropped(cursor: Cursor, text: str) -> Statement:
    exists_ok = cursor.take("if", "exists")
    name = function_name(cursor, _DROP)
    if cursor.symbol("("):
        cursor.at = closing_parenthesis(cursor.tokens, cursor.at - 1) + 1
    cursor.end(_DROP)
    return Statement("drop_function", text, key=name, exists_ok=exists_ok)


def _created(cursor: Cursor, text: str, *, replaces: bool) -> Statement:
    exists_ok = cursor.take("if", "not", "exists")
    name = function_name(cursor, _FUNCTION)
    listed = read_parameters(cursor, _FUNCTION) if cursor.symbol("(") else None
    if cursor.take("returns"):
        raise UnsupportedError(f"a function's type follows from its expression: {_FUNCTION}")
    cursor.need(_FUNCTION, "as")
    tokens = cursor.tokens
    end = next((at for at in range(cursor.at, len(tokens)) if _begins_figures(tokens, at)), len(tokens))
    body, names = read_expression(tokens[cursor.at : end], text, tokens[0].start, _FUNCTION)
    cursor.at = end
    figures = read_figures(cursor, _FUNCTION) if cursor.take("with") else {}
    cursor.end(_FUNCTION)
    parameters = tuple(listed) if listed is not None else names
    if extra := [one for one in names if one not in parameters]:
        raise SqlError(f"the expression of {name} has the name {extra[0]}, which is not a parameter: {_FUNCTION}")
    return Statement(
        "create_function",
        text,
        key=name,
        value=body,
        columns=parameters,
        parameter_types=tuple((listed or {}).values()),
        or_replace=replaces,
        exists_ok=exists_ok,
        model_options=MappingProxyType(figures),
    )


def function_name(cursor: Cursor, usage: str) -> str:
    """Read the name of a function, which has no schema, like the name of a model.

    The default schema before it means nothing.

    Raises:
        SqlError: there is no name, or it has another schema.
    """
    parts, cursor.at = read_parts(cursor.tokens, cursor.at)
    if len(parts) == 2 and parts[0] == DEFAULT_SCHEMA:
        parts = parts[1:]
    if len(parts) != 1:
        raise SqlError(f"a function must have a name of one part, because functions are in no schema: {usage}")
    return parts[0]


def read_parameters(cursor: Cursor, usage: str) -> Mapping[str, str]:
    """Read `name type, …)` after an opening parenthesis; return the type of each parameter, empty if it is left out.

    Raises:
        SqlError: the list is malformed, or a name occurs twice.
    """
    closing = closing_parenthesis(cursor.tokens, cursor.at - 1)
    found: dict[str, str] = {}
    while cursor.at < closing:
        token = cursor.next()
        name = None if token is None else identifier(token)
        if name is None or name in found:
            raise SqlError(f"a parameter is a name and a type, and each name occurs once: {usage}")
        first = cursor.at
        while cursor.at < closing and not cursor.tokens[cursor.at].is_symbol(","):
            opens = cursor.tokens[cursor.at].is_symbol("(")
            cursor.at = (closing_parenthesis(cursor.tokens, cursor.at) if opens else cursor.at) + 1
        found[name] = " ".join(token.text for token in cursor.tokens[first : cursor.at])
        cursor.at += cursor.at < closing
    cursor.at = closing + 1
    return found


def _begins_figures(tokens: Sequence[Token], at: int) -> bool:
    """Return whether WITH ( begins at a token; an expression has no such words."""
    return tokens[at].is_word("with") and at + 1 < len(tokens) and tokens[at + 1].is_symbol("(")


def read_figures(cursor: Cursor, usage: str) -> dict[str, str | int | float | bool]:
    """Read a list of names and values, such as `(accuracy = 0.9, measured = '2026-11-30')`.

    Raises:
        SqlError: the list is malformed, or a name occurs twice.
        InvalidInputError: a value is neither a text, a number nor a boolean.
    """
    if not cursor.symbol("("):
        raise SqlError(f"a list in parentheses was expected after WITH: {usage}")
    tokens, closing = cursor.tokens, closing_parenthesis(cursor.tokens, cursor.at - 1)
    found: dict[str, str | int | float | bool] = {}
    while cursor.at < closing:
        name = identifier(tokens[cursor.at])
        first = cursor.at + 1 + tokens[cursor.at + 1].is_symbol("=")
        end = next((at for at in range(first, closing) if tokens[at].is_symbol(",")), closing)
        if name is None or name in found or first >= end:
            raise SqlError(f"WITH has a name and a value, each name once: {usage}")
        constant = read_constant(tokens[first:end])
        word = tokens[first].text.lower() if end == first + 1 and tokens[first].kind is TokenKind.WORD else None
        value = word if constant is None else constant.value
        if not isinstance(value, str | int | float | bool):
            raise InvalidInputError(f"{name} needs a text, a number, true or false")
        found[name], cursor.at = value, end + (end < closing)
    cursor.at = closing + 1
    return found


def read_expression(tokens: Sequence[Token], text: str, start: int, usage: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of an expression, with `t` for `{t}`, and the names in it in their order.

    `text` is the statement, and `start` the place of its first token.

    Raises:
        SqlError: there is no expression, it cannot be read, or it has a query or a qualified name.
    """
    if not tokens:
        raise SqlError(f"an expression was expected after AS: {usage}")
    parts: list[str] = []
    at = tokens[0].start - start
    for index, token in enumerate(tokens):
        if _is_braced(tokens, index):
            parts.append(text[at : token.start - start])
            at = tokens[index + 1].start - start
        if index > 1 and _is_braced(tokens, index - 2):
            parts.append(text[at : tokens[index - 1].end - start])
            at = token.end - start
    body = "".join([*parts, text[at : tokens[-1].end - start]])
    try:
        found = names_in(body)
    except SqlError as error:
        error.args = (f"{error}: {usage}",)
        raise
    for name in found:
        if len(name.parts) > 1:
            raise SqlError(
                f"{name.parts[0][:40]}. in the expression: name a parameter without a table before it, because a call"
                " gives it its value"
            )
    return body, tuple(dict.fromkeys(name.parts[0] for name in found))


def _is_braced(tokens: Sequence[Token], index: int) -> bool:
    """Return whether `{name}` begins at a token."""
    following = tokens[index : index + 3]
    return (
        len(following) == 3
        and following[0].is_symbol("{")
        and identifier(following[1]) is not None
        and following[2].is_symbol("}")
    )
