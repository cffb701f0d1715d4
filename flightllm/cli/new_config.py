"""The configuration that `flightllm init` writes: an engine, and comments about further keys."""

import json
from pathlib import Path

from flightllm.config import EngineConfig
from flightllm.errors import ConfigError

_KINDS = {
    "openai": "an endpoint with OpenAI's protocol, over HTTP",
    "anthropic": "Claude through the Messages API, over HTTP",
    "local": "in the server, by PyTorch",
    "vllm": "in the server, by vLLM on a GPU",
    "fake": "made-up answers, for tests",
}
_COMMENTS = {
    "api_key": "a reference to the key; the key itself is never in this file",
    "api_key_env": "no key is sent",
    "provider": "gives base_url and the key's variable their defaults",
}
_LIMITS = """# requests_per_minute = 500        # stay below the account's limits
# tokens_per_minute = 200_000
# price_input = 0.15               # per million tokens: for EXPLAIN and the setting max_cost, where no price is known
# price_output = 0.60
"""


def config_text(engine: EngineConfig, name: str, checked: str) -> str:
    """Return a configuration as TOML; `name` is the name of its file, `checked` the result of the check of the model.

    Raises:
        ConfigError: a value cannot be written in TOML, or the file's name cannot be written in a comment.
    """
    if not name.isprintable():  # a line break would end the comment, and start a key
        raise ConfigError(f"the file name {name!r} has a character that cannot be printed")
    keys = {"kind": engine.kind, "model": engine.model, **engine.options}
    comments = {"kind": _KINDS.get(engine.kind, ""), "model": checked, **_COMMENTS}
    lines = [_line(key, value, comments.get(key, "")) for key, value in keys.items()]
    return f"""# Made by `flightllm init`. Name it in a command to use it:
#   flightllm serve --config {name} tickets.csv
#   flightllm query --config {name} --open tickets.csv "SELECT count(*) FROM tickets"
# `flightllm doctor --config {name}` checks the keys below.

[engine]
{"".join(lines)}max_in_flight = {engine.max_in_flight:<18} # prompts in flight at once
{_LIMITS if engine.kind in {"openai", "anthropic"} else ""}
[server]
listen = "127.0.0.1:31337"         # only this machine; for other machines, add users, tls_certificate and tls_key

[tables]
# tickets = "tickets.csv"          # name = "file or folder"; relative paths start at the folder of this file
"""


def _line(key: str, value: object, comment: str) -> str:
    text = f"{key} = {_toml(key, value)}"
    return f"{text:<34} # {comment}\n" if comment else f"{text}\n"


def _toml(key: str, value: object) -> str:
    """Return a value in TOML; its strings are written as in JSON, except one control character."""
    text = json.dumps(value, ensure_ascii=False)
    if "\x7f" in text or text.encode(errors="replace").decode() != text:  # a lone surrogate, which UTF-8 cannot encode
        raise ConfigError(f"{key}: {value!r} has a character that a configuration cannot hold")
    return text


def local_model(name: str) -> str:
    """Return a model's name that has the same meaning in every folder: paths become absolute."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name
