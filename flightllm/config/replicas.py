"""The configuration of one replica of an engine: its own keys, and the keys that all replicas share."""

from collections.abc import Mapping
from dataclasses import fields, replace

from flightllm.config.load import read_engine_keys
from flightllm.config.models import REPLICA_KEYS, EngineConfig
from flightllm.errors import ConfigError

_SHARED = frozenset(one.name for one in fields(EngineConfig)) - {*REPLICA_KEYS, "options"}
_MANY = frozenset({"cluster", "ray"})
_FEW_RETRIES = 1
"""Retries of HTTP requests: few, because another replica can answer instead."""


def replica_config(config: EngineConfig, table: Mapping[str, object], place: str) -> EngineConfig:
    """Return the configuration of one replica: the keys and options of `table`, and the shared keys from `config`.

    Raises:
        ConfigError: a key or value is not valid; the error names its place.
    """
    for key in table:
        if key in _SHARED:
            raise ConfigError(f"{place} {key}: one value holds for all replicas; write it in [engine]")
    given = read_engine_keys(table, f"{place} ")
    kind = given.pop("kind", None)
    if kind is None:
        raise ConfigError(f'{place} kind: write the kind of engine, such as kind = "openai"')
    if kind in _MANY:
        raise ConfigError(f"{place} kind: {kind!r} is not a single engine: write one of the other kinds")
    options = {key: value for key, value in table.items() if key not in REPLICA_KEYS}
    if kind in {"openai", "anthropic"}:
        options.setdefault("max_retries", _FEW_RETRIES)
    return replace(config.of_kind(kind, options), **given)
