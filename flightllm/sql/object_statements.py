"""Parser for CREATE, DROP and SHOW of models and prompts, and for Flock's UPDATE, DELETE and GET of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from flightllm.common.names import TableName
from flightllm.engines.secrets import holds_secret, names_secret
from flightllm.errors import InvalidInputError, SqlError
from flightllm.sql.arguments import read_constant
from flightllm.sql.cursor import Cursor
from flightllm.sql.literals import text_literal
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind
from flightllm.sql.vendor_objects import Options, vendor_model, vendor_prompt

MODELS = TableName("system", "models")
PROMPTS = TableName("system", "prompts")
_MODEL = "write CREATE [OR REPLACE] MODEL name OPTIONS (engine 'openai', model 'gpt-5', api_key 'env:NAME', …)"
_PROMPT = "write CREATE [OR REPLACE] PROMPT name AS 'text with {field}'"


def read_object_statement(tokens: Sequence[Token], text: str) -> Statement | None:
    """Return the statement if it concerns models or prompts, else None.

    Raises:
        SqlError: a part is missing, or unexpected text follows the statement.
        InvalidInputError: an option holds a secret. The check is here so that the server never stores such a text.
    """
    cursor = Cursor(tokens, 0)
    for table in (MODELS, PROMPTS):
        if cursor.take("show", table.name) or cursor.take("get", table.name):
            return _shown(table, cursor, text)
        kind = table.name.removesuffix("s")
        if cursor.take("get", kind):
            return _found(table, cursor, text)
        if cursor.take("drop", kind) or cursor.take("delete", kind):
            return _dropped(kind, cursor, text)
    replaces = cursor.take("update")
    if not replaces and not cursor.take("create"):
        return None
    replaces = cursor.take("or", "replace") or replaces
    if cursor.take("secret") or cursor.take("persistent", "secret"):
        raise SqlError("the server's environment holds keys: write api_key 'env:NAME' in the OPTIONS of CREATE MODEL")
    if tokens[cursor.at + 1 : cursor.at + 2] and tokens[cursor.at + 1].is_word("model", "prompt"):
        cursor.take("global") or cursor.take("local")
    if cursor.take("model"):
        return _model(cursor, text, replaces=replaces)
    return _prompt(cursor, text, replaces=replaces) if cursor.take("prompt") else None


def changes_object(tokens: Sequence[Token]) -> bool:
    """Return whether tokens are Flock's `UPDATE MODEL(…)` or `DELETE MODEL 'name'`, not a change of a table."""
    third = tokens[2] if len(tokens) > 2 else None
    return third is not None and (third.is_symbol("(") or third.kind is TokenKind.STRING)


def _shown(table: TableName, cursor: Cursor, text: str) -> Statement:
    cursor.end(f"write SHOW {table.name.upper()}, or SELECT … FROM {table.display}")
    return Statement("query", text, query=f"SELECT * FROM {table.sql}")


def _found(table: TableName, cursor: Cursor, text: str) -> Statement:
    kind = table.name.removesuffix("s")
    usage = f"write GET {kind.upper()} 'name'"
    name = _name(kind, cursor, usage)
    cursor.end(usage)
    return Statement("query", text, query=f"SELECT * FROM {table.sql} WHERE name = {text_literal(name)}")


def _name(kind: str, cursor: Cursor, usage: str) -> str:
    """Read a name; in Flock's statements it is a text."""
    token = cursor.tokens[cursor.at] if cursor.at < len(cursor.tokens) else None
    if token is not None and token.kind is TokenKind.STRING:
        cursor.at += 1
        return token.text
    return cursor.name(f"a {kind}", usage)


def _dropped(kind: str, cursor: Cursor, text: str) -> Statement:
    exists_ok = cursor.take("if", "exists")
    usage = f"write DROP {kind.upper()} [IF EXISTS] name"
    name = _name(kind, cursor, usage)
    cursor.end(usage)
    return Statement("drop_model" if kind == "model" else "drop_prompt", text, key=name, exists_ok=exists_ok)


def _model(cursor: Cursor, text: str, *, replaces: bool) -> Statement:
    exists_ok = cursor.take("if", "not", "exists")
    name, options = vendor_model(cursor.tokens[cursor.at :]) or _own_model(cursor)
    for option, value in options.items():
        if holds_secret(option, value):
            reference = "'env:NAME' for an environment variable of the server or 'file:PATH' for a file on it"
            advice = (
                f"write {reference}" if names_secret(option) else f"take it out; for a key write api_key {reference}"
            )
            raise InvalidInputError(
                f"the option {option} of the model {name!r} holds a secret, which others could read: {advice}"
            )
    return Statement(
        "create_model",
        text,
        key=name,
        or_replace=replaces,
        exists_ok=exists_ok,
        model_options=MappingProxyType(options),
    )


def _own_model(cursor: Cursor) -> tuple[str, Options]:
    name = cursor.name("a model", _MODEL)
    if not cursor.take("options") and not cursor.take("with"):
        raise SqlError(f"OPTIONS was expected after the name: {_MODEL}")
    given = cursor.options("OPTIONS (engine 'openai', model 'gpt-5', api_key 'env:NAME')")
    cursor.end(_MODEL)
    return name, {option: _value(option, token) for option, token in given.items()}


def _value(option: str, token: Token) -> str | int | float | bool:
    constant = read_constant([token])
    if constant is None:  # a word without quotes
        return token.text.lower()
    if not isinstance(constant.value, str | int | float | bool):
        raise SqlError(f"the option {option} has no value: leave the option out for its default")
    return constant.value


def _prompt(cursor: Cursor, text: str, *, replaces: bool) -> Statement:
    exists_ok = cursor.take("if", "not", "exists")
    name, prompt = vendor_prompt(cursor.tokens[cursor.at :]) or _own_prompt(cursor)
    return Statement("create_prompt", text, key=name, value=prompt, or_replace=replaces, exists_ok=exists_ok)


def _own_prompt(cursor: Cursor) -> tuple[str, str]:
    name = cursor.name("a prompt", _PROMPT)
    if not cursor.take("as"):
        raise SqlError(f"AS was expected after the name: {_PROMPT}")
    content = cursor.next()
    if content is None or content.kind not in {
        TokenKind.STRING,
        TokenKind.PLACEHOLDER,
    }:  # a parameter gets its value before the statement runs
        raise SqlError(f"a text in quotes was expected after AS: {_PROMPT}")
    cursor.end(_PROMPT)
    return name, content.text
