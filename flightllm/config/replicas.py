"""The configuration of one engine among several: its own keys, and those that all engines share."""

from collections.abc import Mapping
from dataclasses import fields, replace

from flightllm.config.load import read_engine_keys
from flightllm.config.models import REPLICA_KEYS, EngineConfig
from flightllm.errors import ConfigError

_SHARED = frozenset(one.name for one in fields(EngineConfig)) - {*REPLICA_KEYS, "options"}
_MANY = frozenset({"cluster", "ray"})
_FEW_RETRIES = 1
"""Of HTTP requests, where another replica can be asked instead."""


def replica_config(config: EngineConfig, table: Mapping[str, object], place: str) -> EngineConfig:
    """Return the configuration of one engine: the keys and options of `table`, and what all share from `config`.

    Raises:
        ConfigError: naming the place of what is wrong.
    """
    for key in table:
        if key in _SHARED:
            raise ConfigError(f"{place} {key}: one value holds for all replicas; write it in [engine]")
    given = read_engine_keys(table, f"{place} ")
    kind = given.pop("kind", None)
    if kind is None:
        raise ConfigError(f'{place} kind: say which kind of engine it is, such as kind = "openai"')
    if kind in _MANY:
        raise ConfigError(f"{place} kind: {kind!r} is no single engine")
    options = {key: value for key, value in table.items() if key not in REPLICA_KEYS}
    if kind == "openai":
        options.setdefault("max_retries", _FEW_RETRIES)
    return replace(config.of_kind(kind, options), **given)
