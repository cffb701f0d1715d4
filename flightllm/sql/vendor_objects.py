"""Parser for CREATE MODEL and CREATE PROMPT as BigQuery and Flock spell them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from flightllm.engines.providers import named
from flightllm.errors import SqlError
from flightllm.sql.flock_prompts import our_prompt
from flightllm.sql.tokens import Token, TokenKind

Options = Mapping[str, str | int | float | bool]

_PROVIDERS = {"gemini": "gemini", "claude": "anthropic", "gpt": "openai", "mistral": "mistral", "deepseek": "deepseek"}
"""The beginnings of models' names, and the provider that serves them under these names."""
_FORM = "write CREATE MODEL('name', 'gpt-5', 'openai', {\"model_parameters\": {\"temperature\": 0}})"
_NO_EFFECT = ("tuple_format", "batch_size", "max_batch_size", "is_async", "context_window")
"""Keys of Flock that say how rows are sent: this server sends them in its own way."""


def vendor_model(tokens: Sequence[Token]) -> tuple[str, Options] | None:
    """Return the parts of `name REMOTE WITH CONNECTION … OPTIONS (endpoint = 'm')` and `('name', 'm', 'openai')`.

    Return None for other tokens after CREATE MODEL.

    Raises:
        SqlError: a part has no counterpart; the message says what to write.
    """
    if tokens and tokens[0].is_symbol("("):
        return _flock_model(tokens)
    words = [token.text.lower() for token in tokens]
    if "remote" not in words or "connection" not in words:
        return None
    if "remote_service_type" in words:
        raise SqlError(
            "a service of Google has no counterpart here: write CREATE MODEL name OPTIONS (engine 'openai', model"
            " 'gemini-2.5-flash', provider 'gemini')"
        )
    name = "".join(token.text for token in tokens[: words.index("remote")])
    at = words.index("endpoint") + 2 if "endpoint" in words else len(tokens)
    model = tokens[at].text if at < len(tokens) else "gemini-2.5-flash"
    if "/" in model:
        raise SqlError(
            "an endpoint's address has another form here: write CREATE MODEL name OPTIONS (engine 'openai', model"
            " 'gemini-2.5-flash', base_url 'http://127.0.0.1:8000/v1')"
        )
    provider = next((one for start, one in _PROVIDERS.items() if model.startswith(start)), "gemini")
    return name, _options(model, provider)


def vendor_prompt(tokens: Sequence[Token]) -> tuple[str, str] | None:
    """Return name and text of Flock's `('name', 'a text with {{field}}')`; None for other tokens.

    Raises:
        SqlError: there are not two texts.
    """
    if not tokens or not tokens[0].is_symbol("("):
        return None
    texts, rest = _arguments(tokens)
    if len(texts) != 2 or rest:
        raise SqlError("a prompt has a name and a text: write CREATE PROMPT('name', 'a text with {{field}}')")
    name, text = texts
    return name, our_prompt(text)


def _flock_model(tokens: Sequence[Token]) -> tuple[str, Options]:
    texts, rest = _arguments(tokens)
    if not 2 <= len(texts) <= 3:
        raise SqlError(f"a model has a name, the provider's model and a provider: {_FORM}")
    name, model, *provider = texts
    further, parameters = dict[str, str | int | float | bool](), dict[str, object]()
    for key, value in _object(rest).items():
        match key.lower():
            case "rate_limit" if isinstance(value, int | float):
                further["requests_per_minute"] = value
            case "model_parameters":
                parameters |= _read_parameters(value)
            case "max_output_tokens":
                parameters["max_tokens"] = value
            case "usage_limit":
                raise SqlError(
                    "each query has its own limit here: leave usage_limit out and write SET max_tokens = 50000"
                )
            case one if one not in _NO_EFFECT:
                raise SqlError(f"the model's key {key!r} has no counterpart here: leave it out")
    further |= _parameters(parameters, provider[0] if provider else "openai")
    return name, {**_options(model, *provider), **further}


def _options(model: str, provider: str = "openai") -> Options:
    return {"engine": "openai", "model": model, "provider": provider.lower()}


def _arguments(tokens: Sequence[Token]) -> tuple[list[str], Sequence[Token]]:
    """Return the texts after the opening parenthesis, and the tokens after them up to the closing one.

    Raises:
        SqlError: the tokens do not end with the closing parenthesis.
    """
    if not tokens[-1].is_symbol(")"):
        raise SqlError(f"a closing parenthesis was expected at the end: {_FORM}")
    found, at = list[str](), 1
    while at < len(tokens) - 1 and tokens[at].kind is TokenKind.STRING:
        found.append(tokens[at].text)
        at += 2 if tokens[at + 1].is_symbol(",") else 1
    return found, tokens[at:-1]


def _object(tokens: Sequence[Token]) -> Mapping[str, object]:
    """Return the value of a JSON object, whose texts can have single quotes.

    Raises:
        SqlError: the tokens are another value.
    """
    if not tokens:
        return {}
    try:
        found = json.loads("".join(_json(tokens)))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SqlError(f"the last part of a model must be a JSON object: {_FORM}")
    return found


def _json(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        is_name = token.kind is TokenKind.WORD and not token.is_word("true", "false", "null")
        is_text = is_name or token.kind in {TokenKind.STRING, TokenKind.QUOTED}
        yield json.dumps(token.text) if is_text else token.text.lower()


def _read_parameters(value: object) -> Mapping[str, object]:
    """Return the object `{"temperature": 0.7, "system": "…"}`, or the one that a text holds.

    Raises:
        SqlError: the value is another one.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict):
        raise SqlError(f"model_parameters must be a JSON object: {_FORM}")
    return value


def _parameters(value: Mapping[str, object], provider: str) -> Options:
    """Return the options of a model for the parameters of its requests."""
    found, body = dict[str, str | int | float | bool](), dict[str, object]()
    for key, given in value.items():
        match key:
            case "system":
                found["system_prompt"] = str(given)
            case "max_tokens":
                known = named(provider.lower())
                body["max_tokens" if known is None else known.tokens_key] = given
            case _:
                body[key] = given
    return {**found, "extra_body": json.dumps(body)} if body else found
