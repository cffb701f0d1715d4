"""The tables of the schema `system`: those of the query log, and `system.cache`, one row about the answer cache."""

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.operators.cache import AnswerCache
from flightllm.system import QueryLog

_CACHE = pa.schema([(name, pa.int64()) for name in ("entries", "bytes", "max_bytes", "hits", "misses")])
"""As in `CacheStats`."""


class SystemTables:
    """What the server fills itself. Safe to use from several threads."""

    def __init__(self, queries: QueryLog, cache: AnswerCache) -> None:
        self._queries = queries
        self._cache = cache

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return MappingProxyType({"cache": _CACHE, **self._queries.schemas})

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table as they are now.

        Raises:
            NotFoundError: there is no such system table.
        """
        if name == "cache":
            return pa.Table.from_pylist([asdict(self._cache.stats())], schema=_CACHE)
        return self._queries.snapshot(name)
