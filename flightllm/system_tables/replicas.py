"""The system table about the replicas of clusters: `system.replicas`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.access.store import DEFAULT_MODEL
from flightllm.engines.registry import Engines
from flightllm.engines.supervised import SupervisedEngine
from flightllm.router.engine import RoutedEngine
from flightllm.router.replica import ReplicaStatus

_REPLICAS = pa.schema(
    [
        ("model", pa.string()),
        ("policy", pa.string()),
        ("number", pa.int64()),
        *((name, pa.string()) for name in ("name", "state", "error")),
        *((name, pa.int64()) for name in ("in_flight", "waiting")),
        ("load_seconds", pa.float64()),
        *((name, pa.int64()) for name in ("answered", "prompt_tokens", "cached_tokens", "held_blocks", "cache_blocks")),
        ("kv_events", pa.bool_()),
    ]
)


class ReplicaTable:
    """`system.replicas`: one row for each replica of each model with several replicas."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"replicas": _REPLICAS})

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows as they are now."""
        rows = [{"model": model, "policy": policy, **asdict(one)} for model, policy, one in replicas(self._engines)]
        return pa.Table.from_pylist(rows, schema=_REPLICAS)


def replicas(engines: Engines) -> Iterator[tuple[str, str, ReplicaStatus]]:
    """Yield each replica of each open model with several, with the model's name and the routing policy."""
    for name, engine in engines.opened().items():
        inner = engine.inner if isinstance(engine, SupervisedEngine) else engine
        if isinstance(inner, RoutedEngine):
            yield from ((DEFAULT_MODEL if name is None else name, inner.policy, one) for one in inner.status())
