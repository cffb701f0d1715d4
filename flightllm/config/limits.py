"""Limits on queries and on cached answers."""

from dataclasses import dataclass, fields
from pathlib import Path

from flightllm.config.checks import above_zero, at_least_one
from flightllm.errors import ConfigError

_POOL_DIVISOR = 4
"""Decoded tables take at most `server_memory_bytes` divided by this number."""


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    """Limits on one statement, one upload or the whole server; None means no limit.

    `memory_bytes` and `spill_bytes` limit the relational work of each query, not of all queries together. The memory of
    an engine, and of the batches sent to it, does not count. With `server_memory_bytes`, all queries share one pool of
    that size instead of having `memory_bytes` each. `table_cache_bytes` bounds the decoded rows of tables that are
    read again. They take at most a quarter of `server_memory_bytes`, and the pool is smaller by as much.
    """

    sql_bytes: int = 1_048_576
    sql_terms: int = 2_000
    statement_seconds: float | None = None
    concurrent_queries: int = 64
    queued_queries: int = 1_024
    queue_seconds: float = 60.0
    sessions: int = 4_096
    session_seconds: float = 86_400.0
    result_bytes: int | None = None
    upload_bytes: int = 1 << 30
    memory_bytes: int = 2 << 30
    server_memory_bytes: int | None = None
    table_cache_bytes: int = 1 << 30
    spill_bytes: int = 100 << 30
    spill_folder: Path | None = None
    batch_bytes: int = 2 << 20
    isolated_statements: int = 16
    isolated_spares: int = 1
    deferred_seconds: float = 2_592_000.0

    def __post_init__(self) -> None:
        if self.isolated_spares < 0:
            raise ConfigError(f"limits: isolated_spares = {self.isolated_spares} must be at least 0")
        if self.table_cache_bytes < 0:
            raise ConfigError(f"limits: table_cache_bytes = {self.table_cache_bytes} must be at least 0")
        other = ("spill_folder", "isolated_spares", "table_cache_bytes")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in other}
        at_least_one("limits", **{key: value for key, value in values.items() if isinstance(value, int)})
        above_zero("limits", **{key: value for key, value in values.items() if isinstance(value, float)})

    @property
    def decoded_bytes(self) -> int:
        """Return the most bytes of decoded tables in memory."""
        whole = self.server_memory_bytes
        return self.table_cache_bytes if whole is None else min(self.table_cache_bytes, whole // _POOL_DIVISOR)

    @property
    def pool_bytes(self) -> int | None:
        """Return the size of the pool that all queries share, or None if each query has memory of its own."""
        whole = self.server_memory_bytes
        return None if whole is None else whole - self.decoded_bytes


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Where answers are cached between queries; `path` defaults to `answers.sqlite` in the data folder."""

    enabled: bool = True
    path: Path | None = None
    max_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        at_least_one("cache", max_bytes=self.max_bytes)
