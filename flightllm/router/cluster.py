"""The engine kind `cluster`: one engine made of several, each of which the configuration lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flightllm.config import EngineConfig
from flightllm.config.replicas import replica_config
from flightllm.engines import check_engine, create_engine
from flightllm.engines.options import read_options
from flightllm.engines.secrets import shown_address
from flightllm.errors import ConfigError
from flightllm.router.base import check_policy
from flightllm.router.engine import RoutedEngine

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The engines of a cluster, and the policy that routes prompts to them.

    Each table of `replicas` has the keys of `[engine]` for one engine; `replica` has the keys that all of them share.
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
    """Return the options and the configuration of each engine, and check the engines' own options too.

    Raises:
        ConfigError: an option of the cluster or of an engine is wrong.
    """
    options, replicas = replica_configs(config)
    for number, one in enumerate(replicas, 1):
        check_replica(one, f"[[engine.replicas]] {number}:")
    return options, replicas


def replica_configs(config: EngineConfig) -> tuple[ClusterOptions, list[EngineConfig]]:
    """Return the options of a cluster, and the configuration of each of its engines.

    Raises:
        ConfigError: an option of the cluster is wrong; the engines' own options are not checked.
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
    """Check the configuration of one engine; see `check_engine`.

    Raises:
        ConfigError: the configuration is wrong; the message begins with `place`.
    """
    try:
        check_engine(config)
    except ConfigError as error:
        raise ConfigError(f"{place} {str(error).removeprefix('[engine] ')}") from error


def _names(replicas: Sequence[EngineConfig]) -> list[str]:
    """Return the names of replicas: the address, or the engine kind and a number."""
    return [
        shown_address(str(one.options.get("base_url") or f"{one.kind} {number}")) for number, one in enumerate(replicas)
    ]


def _check_endpoints(replicas: Sequence[EngineConfig]) -> None:
    """Reject a duplicate endpoint: it would count as two caches, although both replicas fail together."""
    found: dict[str, int] = {}
    for number, one in enumerate(replicas, 1):
        address = str(one.options.get("base_url") or "").rstrip("/")
        first = found.setdefault(address, number)
        if address and first != number:
            raise ConfigError(
                f"[[engine.replicas]] base_url: the sections {first} and {number} have the same address,"
                f" {shown_address(address)}; write each endpoint once, with its max_in_flight"
            )
