"""Parser for CREATE, DROP and SHOW of models and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from flightllm.common.names import TableName
from flightllm.engines.secrets import holds_secret, names_secret
from flightllm.errors import InvalidInputError, SqlError
from flightllm.sql.arguments import read_constant
from flightllm.sql.cursor import Cursor
from flightllm.sql.statement import Statement
from flightllm.sql.tokens import Token, TokenKind
from flightllm.sql.vendor_objects import vendor_model, vendor_prompt

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
    if cursor.take("show", "models"):
        return _shown(MODELS, cursor, text)
    if cursor.take("show", "prompts"):
        return _shown(PROMPTS, cursor, text)
    if cursor.take("drop", "model"):
        return _dropped("model", cursor, text)
    if cursor.take("drop", "prompt"):
        return _dropped("prompt", cursor, text)
    if not cursor.take("create"):
        return None
    replaces = cursor.take("or", "replace")
    if cursor.take("secret") or cursor.take("persistent", "secret"):
        raise SqlError("the server's environment holds keys: write api_key 'env:NAME' in the OPTIONS of CREATE MODEL")
    if tokens[cursor.at + 1 : cursor.at + 2] and tokens[cursor.at + 1].is_word("model", "prompt"):
        cursor.take("global") or cursor.take("local")
    if cursor.take("model"):
        return _model(cursor, text, replaces=replaces)
    return _prompt(cursor, text, replaces=replaces) if cursor.take("prompt") else None


def _shown(table: TableName, cursor: Cursor, text: str) -> Statement:
    cursor.end(f"write SHOW {table.name.upper()}, or SELECT … FROM {table.display}")
    return Statement("query", text, query=f"SELECT * FROM {table.sql}")


def _dropped(kind: str, cursor: Cursor, text: str) -> Statement:
    exists_ok = cursor.take("if", "exists")
    usage = f"write DROP {kind.upper()} [IF EXISTS] name"
    name = cursor.name(f"a {kind}", usage)
    cursor.end(usage)
    return Statement("drop_model" if kind == "model" else "drop_prompt", text, key=name, exists_ok=exists_ok)


def _model(cursor: Cursor, text: str, *, replaces: bool) -> Statement:
    exists_ok = cursor.take("if", "not", "exists")
    if (line := vendor_model(cursor.tokens[cursor.at :])) is not None:
        raise SqlError(f"a model has another form here: write {line}")
    name = cursor.name("a model", _MODEL)
    if not cursor.take("options") and not cursor.take("with"):
        raise SqlError(f"OPTIONS was expected after the name: {_MODEL}")
    given = cursor.options("OPTIONS (engine 'openai', model 'gpt-5', api_key 'env:NAME')")
    cursor.end(_MODEL)
    options = {option: _value(option, token) for option, token in given.items()}
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


def _value(option: str, token: Token) -> str | int | float | bool:
    constant = read_constant([token])
    if constant is None:  # a word without quotes
        return token.text.lower()
    if not isinstance(constant.value, str | int | float | bool):
        raise SqlError(f"the option {option} has no value: leave the option out for its default")
    return constant.value


def _prompt(cursor: Cursor, text: str, *, replaces: bool) -> Statement:
    exists_ok = cursor.take("if", "not", "exists")
    if (line := vendor_prompt(cursor.tokens[cursor.at :])) is not None:
        raise SqlError(f"a prompt has another form here: write {line}")
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
    return Statement("create_prompt", text, key=name, value=content.text, or_replace=replaces, exists_ok=exists_ok)
