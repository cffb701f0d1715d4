"""The statement that makes a model of which a text from elsewhere has only the name."""

from flightllm.common.names import quoted
from flightllm.sql.literals import text_literal

_BEFORE = "openai-"
"""The beginning of Snowflake's names for OpenAI's models."""
_PROVIDERS = (
    ("gpt-", "openai"),
    ("chatgpt", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    (_BEFORE, "openai"),
    ("claude", "anthropic"),
    ("gemini", "gemini"),
    ("mistral", "mistral"),
    ("deepseek", "deepseek"),
)
"""The beginnings of models' names, and the provider that serves them under these names."""
_ADDRESS = "http://127.0.0.1:8000/v1"
"""The address at which servers of open models listen by default."""


def creation_advice(name: str) -> str:
    """Return what to write so that a model's name means a model: the statement, or the alias in the configuration."""
    return (
        f"To use another model under this name, an admin writes {creation(name)}; to use the server's own, write"
        f' aliases = {{ {_toml(name)} = "default" }} in [models] of the server\'s configuration'
    )


def creation(name: str) -> str:
    """Return the CREATE MODEL of a model with this name, at its provider or at a server of open models."""
    provider = next((one for start, one in _PROVIDERS if name.lower().startswith(start)), None)
    model = name[len(_BEFORE) :] if name.lower().startswith(_BEFORE) else name
    at = f"provider '{provider}'" if provider is not None else f"base_url '{_ADDRESS}'"
    return f"CREATE MODEL {quoted(name)} OPTIONS (engine 'openai', model {text_literal(model)}, {at})"


def _toml(name: str) -> str:
    """Return a name as a quoted key of TOML."""
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
