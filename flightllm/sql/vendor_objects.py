"""The statement to write for CREATE MODEL and CREATE PROMPT as BigQuery and Flock spell them."""

from collections.abc import Sequence

from flightllm.common.names import quoted
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import Token, TokenKind

_PROVIDERS = {"gemini": "gemini", "claude": "anthropic", "gpt": "openai", "mistral": "mistral", "deepseek": "deepseek"}
"""The beginnings of models' names, and the provider that serves them under these names."""


def vendor_model(tokens: Sequence[Token]) -> str | None:
    """Return CREATE MODEL for `name REMOTE WITH CONNECTION … OPTIONS (endpoint = 'm')` and `('name', 'm', 'openai')`.

    Return None for other tokens after CREATE MODEL.
    """
    if tokens and tokens[0].is_symbol("("):  # Flock
        name, model, provider, *_ = [*_texts(tokens), "name", "gpt-5", "openai"]
        return _made(name, model, provider)
    words = [token.text.lower() for token in tokens]
    if "remote" not in words or "connection" not in words:
        return None
    name = "".join(token.text for token in tokens[: words.index("remote")])
    at = next((words.index(one) + 2 for one in ("endpoint", "remote_service_type") if one in words), len(tokens))
    model = tokens[at].text if at < len(tokens) else "gemini-2.5-flash"
    provider = next((one for start, one in _PROVIDERS.items() if model.startswith(start)), "gemini")
    return _made(name, model, provider)


def vendor_prompt(tokens: Sequence[Token]) -> str | None:
    """Return CREATE PROMPT for Flock's `('name', 'a text with {{field}}')`; None for other tokens."""
    if not tokens or not tokens[0].is_symbol("("):
        return None
    name, text, *_ = [*_texts(tokens), "name", "text with {field}"]
    return f"CREATE PROMPT {quoted(name)} AS {text_literal(text.replace('{{', '{').replace('}}', '}'))}"


def _texts(tokens: Sequence[Token]) -> list[str]:
    """Return the texts up to the first token of another kind."""
    found = list[str]()
    for token in tokens[1:]:
        if token.kind is TokenKind.STRING:
            found.append(token.text)
        elif not token.is_symbol(","):
            break
    return found


def _made(name: str, model: str, provider: str) -> str:
    return (
        f"CREATE MODEL {quoted(name)} OPTIONS (engine 'openai', model {text_literal(model)}, provider"
        f" {text_literal(provider)})"
    )
