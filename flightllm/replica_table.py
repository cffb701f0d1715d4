"""The system table about the replicas of clusters: `system.replicas`."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.access.store import DEFAULT_MODEL
from flightllm.engines import Engines
from flightllm.llm.supervised import SupervisedEngine
from flightllm.router.engine import RoutedEngine

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
    """`system.replicas`: one row for each replica of each model that has several."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"replicas": _REPLICAS})

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows as they are now."""
        return pa.Table.from_pylist(list(self._rows()), schema=_REPLICAS)

    def _rows(self) -> Iterator[dict[str, object]]:
        for name, engine in self._engines.opened().items():
            inner = engine.inner if isinstance(engine, SupervisedEngine) else engine
            if isinstance(inner, RoutedEngine):
                model = {"model": DEFAULT_MODEL if name is None else name, "policy": inner.policy}
                yield from (model | asdict(status) for status in inner.status())
