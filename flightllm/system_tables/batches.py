"""The system table about statements that wait for a provider's batch endpoint: `system.batches`."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

_TIME = pa.timestamp("us", tz="UTC")
_BATCHES = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "user", "sql", "state", "error")),
        *((name, pa.int64()) for name in ("rounds", "prompts", "sent", "answered", "failed", "rows")),
        *((name, pa.float64()) for name in ("price_estimated", "price_immediate", "price")),
        ("provider_batches", pa.list_(pa.string())),
        *((name, _TIME) for name in ("created", "ends", "ended")),
    ]
)


class BatchTable:
    """`system.batches`: one row for each deferred statement."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"batches": _BATCHES})

    def __init__(self) -> None:
        self.of: Callable[[], Sequence[Mapping[str, object]]] = tuple
        """Returns the rows; set once the statements are open."""

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows as they are now."""
        return pa.Table.from_pylist([dict(row) for row in self.of()], schema=_BATCHES)
