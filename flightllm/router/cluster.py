"""Several engines, told one by one in the configuration, as one: the engine kind `cluster`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flightllm.config import EngineConfig
from flightllm.config.replicas import replica_config
from flightllm.errors import ConfigError
from flightllm.llm import check_engine, create_engine
from flightllm.llm.options import read_options
from flightllm.llm.secrets import shown_address
from flightllm.router.base import check_policy
from flightllm.router.engine import RoutedEngine

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Which engines there are, and how prompts are routed to them.

    `replicas` are tables of the keys of `[engine]`, each for one engine; `replica` has those that they have in common.
    """

    replicas: list[Mapping[str, object]] = field(default_factory=list)
    replica: Mapping[str, object] = field(default_factory=dict)
    policy: str = "e2_batch"

    def __post_init__(self) -> None:
        check_policy(self.policy)
        if not self.replicas:
            raise ValueError("replicas: write a section [[engine.replicas]] for each engine")


def create(config: EngineConfig) -> RoutedEngine:
    """Open the engines; see `RoutedEngine`."""
    options, replicas = check(config)
    kinds = ", ".join(dict.fromkeys(one.kind for one in replicas))
    named = [(name, partial(create_engine, one)) for name, one in zip(_names(replicas), replicas, strict=True)]
    return RoutedEngine(f"cluster of {kinds} ({config.model})", named, options.policy, config.max_in_flight)


def check(config: EngineConfig) -> tuple[ClusterOptions, list[EngineConfig]]:
    """Return the options and the configuration of each engine, whose own options are looked at too."""
    options, replicas = replica_configs(config)
    for number, one in enumerate(replicas, 1):
        check_replica(one, f"[[engine.replicas]] {number}:")
    return options, replicas


def replica_configs(config: EngineConfig) -> tuple[ClusterOptions, list[EngineConfig]]:
    """Return the options of a cluster, and the configuration of each of its engines.

    Raises:
        ConfigError: an option is wrong; those of the engines are not looked at.
    """
    options = read_options(ClusterOptions, "cluster", config.options)
    found = []
    for table in options.replicas:
        if not isinstance(table, Mapping):
            raise ConfigError(f"[engine] replicas: expected sections [[engine.replicas]], got {table!r}")
        found.append(replica_config(config, {**options.replica, **table}, "[[engine.replicas]]"))
    _check_endpoints(found)
    return options, found


def check_replica(config: EngineConfig, place: str) -> None:
    """Check what can be checked of one engine; see `check_engine`.

    Raises:
        ConfigError: naming the place of what is wrong.
    """
    try:
        check_engine(config)
    except ConfigError as error:
        raise ConfigError(f"{place} {str(error).removeprefix('[engine] ')}") from error


def _names(replicas: Sequence[EngineConfig]) -> list[str]:
    """Return what replicas are called: by their address where they have one."""
    return [
        shown_address(str(one.options.get("base_url") or f"{one.kind} {number}")) for number, one in enumerate(replicas)
    ]


def _check_endpoints(replicas: Sequence[EngineConfig]) -> None:
    """Refuse an endpoint that is there twice: it would count as two caches, and be lost as one."""
    found: dict[str, int] = {}
    for number, one in enumerate(replicas, 1):
        address = str(one.options.get("base_url") or "").rstrip("/")
        first = found.setdefault(address, number)
        if address and first != number:
            raise ConfigError(
                f"[[engine.replicas]] base_url: the sections {first} and {number} have the same,"
                f" {shown_address(address)}; write each endpoint once, with its max_in_flight"
            )
