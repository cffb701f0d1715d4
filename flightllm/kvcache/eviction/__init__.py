"""Eviction policies for the blocks of a KV cache, by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, Final

from flightllm.errors import ConfigError
from flightllm.kvcache.eviction.adaptive import Adaptive
from flightllm.kvcache.eviction.arc import Arc
from flightllm.kvcache.eviction.base import EvictionPolicy
from flightllm.kvcache.eviction.gdsf import Gdsf
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.memory import Memory
from flightllm.kvcache.eviction.planned import PlannedPolicy
from flightllm.kvcache.eviction.s3_fifo import S3Fifo
from flightllm.kvcache.eviction.two_queues import TwoQueues

OFF: Final = "none"
"""The name for no policy: the engine keeps its own order."""
POLICIES: Final[dict[str, Callable[[int], EvictionPolicy[Any]]]] = {
    "lru": lambda _: Lru(),
    "2q": TwoQueues,
    "gdsf": Gdsf,
    "arc": Arc,
    "s3_fifo": S3Fifo,
    "workload_aware": Adaptive,
    "planned": PlannedPolicy,
}


def check_policy(name: str) -> None:
    """Check that an engine's option is the name of a policy or `OFF`.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in (*POLICIES, OFF):
        raise ValueError(f"kv_eviction: expected one of {', '.join([*POLICIES, OFF])}, got {name!r}")


def create_policy(name: str, blocks: int, memory: str = "") -> EvictionPolicy[Hashable]:
    """Return a new policy by its name, for a cache of `blocks` blocks.

    `memory` is the path of a file for what the policy learns, which survives a restart; see `Memory`. Policies that do
    not learn ignore it.

    Raises:
        ConfigError: the name is unknown.
    """
    if name not in POLICIES:
        raise ConfigError(f"unknown eviction policy {name!r}; valid names: {', '.join(POLICIES)}, and {OFF}")
    policy = POLICIES[name](blocks)
    if memory and isinstance(policy, Adaptive | PlannedPolicy):
        policy.remember(Memory(Path(memory)))
    return policy
