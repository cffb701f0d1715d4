"""Check the free-form keys of `[engine]` and `[embedding]` in the configuration against an engine's own options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from flightllm.common.redaction import redacted, shown_value
from flightllm.config import REPLICA_KEYS, EmbeddingConfig, EngineConfig
from flightllm.engines.secrets import keep_secrets
from flightllm.errors import ConfigError

OptionsT = TypeVar("OptionsT")


def read_options(
    options_type: type[OptionsT], kind: str, options: Mapping[str, object], section: str = "engine"
) -> OptionsT:
    """Return an `options_type` built from the keys of a section of the configuration.

    An int is a valid value for a float. A text with a JSON object is a valid table: SQL has no tables for options.

    Raises:
        ConfigError: a key is unknown, or a value is wrong; the message names the key and the valid keys or values.
    """
    keep_secrets(options)
    hints = get_type_hints(options_type)
    valid = [field.name for field in fields(options_type)]  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, given in options.items():
        if key not in valid:
            msg = f"[{section}] {key}: unknown option of the engine {kind!r}; valid options: {', '.join(sorted(valid))}"
            msg += f"; of every engine: {_common(section)}"
            raise ConfigError(msg)
        accepted = _plain_types(hints[key])
        value = _table(section, key, given) if isinstance(given, str) and Mapping in accepted else given
        if not _fits(value, accepted):
            names = _tables(section, key, hints[key]) or " or ".join(sorted(_name(one) for one in accepted))
            got = f"{type(value).__name__} {shown_value(value)}".rstrip()
            raise ConfigError(f"[{section}] {key}: expected {names}, got {got}")
        values[key] = float(value) if float in accepted and type(value) is int else value
    try:
        return options_type(**values)
    except ValueError as exc:  # raised by the dataclass's own __post_init__
        msg = redacted(f"[{section}] {exc}")
        raise ConfigError(msg) from exc


def _common(section: str) -> str:
    """Return the keys of a section that do not depend on its kind."""
    config = EngineConfig if section == "engine" else EmbeddingConfig
    shared = [field.name for field in fields(config) if field.name not in {"options", *REPLICA_KEYS}]
    text = ", ".join(REPLICA_KEYS)
    return f"{text}; and, except for a replica: {', '.join(shared)}" if shared else text


def _table(section: str, key: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"[{section}] {key}: expected a section [{section}.{key}], or a text that is a JSON object"
        ) from error


def _tables(section: str, key: str, hint: Any) -> str | None:
    """Return the TOML syntax of an option that is a table or a list of tables; None for other options."""
    if get_origin(hint) is Mapping:
        return f"a section [{section}.{key}]"
    if get_origin(hint) is list and any(get_origin(one) is Mapping for one in get_args(hint)):
        return f"sections [[{section}.{key}]]"
    return None


def _plain_types(hint: Any) -> tuple[type, ...]:
    parts = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    return tuple(get_origin(part) or part for part in parts)


def _fits(value: object, accepted: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in accepted
    if isinstance(value, int) and float in accepted:
        return True
    return isinstance(value, accepted)


def _name(one: type) -> str:
    return "nothing" if one is NoneType else one.__name__
