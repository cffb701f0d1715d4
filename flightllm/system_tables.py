"""The tables of the schema `system`: those of the query log, and `system.cache`, one row about the answer cache."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.errors import FlightLLMError
from flightllm.operators.cache import AnswerCache
from flightllm.sql.names import TableName
from flightllm.system import QueryLog
from flightllm.vector.status import status
from flightllm.vector.store import VectorIndexes

_CACHE = pa.schema([(name, pa.int64()) for name in ("entries", "bytes", "max_bytes", "hits", "misses", "failures")])
"""As in `CacheStats`."""
_INDEXES = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "table", "column", "type", "metric", "model", "status")),
        *((name, pa.int64()) for name in ("dimensions", "rows", "nulls", "bytes")),
        ("options", pa.string()),
        ("created", pa.string()),
    ]
)


class SystemTables:
    """What the server fills itself. Safe to use from several threads."""

    def __init__(
        self,
        queries: QueryLog,
        cache: AnswerCache,
        indexes: VectorIndexes,
        revision: Callable[[TableName], str],
        model: str,
    ) -> None:
        self._queries = queries
        self._cache = cache
        self._indexes = indexes
        self._revision = revision
        """Tells the content of a table from another one."""
        self._model = model
        """The embedding model."""

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return MappingProxyType({"cache": _CACHE, "vector_indexes": _INDEXES, **self._queries.schemas})

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table as they are now.

        Raises:
            NotFoundError: there is no such system table.
        """
        if name == "cache":
            return pa.Table.from_pylist([asdict(self._cache.stats())], schema=_CACHE)
        if name == "vector_indexes":
            return pa.Table.from_pylist([self._index(one) for one in self._indexes.names()], schema=_INDEXES)
        return self._queries.snapshot(name)

    def _index(self, name: str) -> dict[str, object]:
        try:
            manifest = self._indexes.manifest(name)
            self._indexes.check_sizes(name)
        except FlightLLMError as error:
            return {"name": name, "status": str(error)}
        return {
            "name": name,
            "table": TableName(*manifest.table).display,
            "column": manifest.column,
            "type": manifest.options.type,
            "metric": manifest.options.metric,
            "model": manifest.model,
            "status": status(manifest, self._revision, self._model),
            "dimensions": manifest.dimensions,
            "rows": manifest.rows,
            "nulls": manifest.nulls,
            "bytes": sum(size for size, _ in manifest.files.values()),
            "options": json.dumps(manifest.options.as_dict()),
            "created": manifest.created,
        }
