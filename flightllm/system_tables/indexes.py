"""The schema `system`, combined from the tables of the server's parts; and the tables of answer cache and indexes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.catalog import SystemTables
from flightllm.common.names import TableName
from flightllm.errors import FlightLLMError, NotFoundError
from flightllm.operators.answer_store import AnswerStore
from flightllm.vector.status import status
from flightllm.vector.store import VectorIndexes

_CACHE = pa.schema([(name, pa.int64()) for name in ("entries", "bytes", "max_bytes", "hits", "misses", "failures")])
"""The fields of `CacheStats`."""
_INDEXES = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "table", "column", "type", "metric", "model", "status")),
        *((name, pa.int64()) for name in ("dimensions", "rows", "nulls", "failed", "bytes")),
        ("options", pa.string()),
        ("created", pa.string()),
    ]
)


class ServerTables:
    """The tables of all parts of a server together."""

    def __init__(self, *parts: SystemTables) -> None:
        self._parts = parts
        self.schemas: Mapping[str, pa.Schema] = MappingProxyType(
            {name: schema for part in parts for name, schema in part.schemas.items()}
        )
        """The schema of every table by name; a part's schemas never change."""

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table as they are now.

        Raises:
            NotFoundError: there is no system table with this name.
        """
        for part in self._parts:
            if name in part.schemas:
                return part.snapshot(name)
        raise NotFoundError(f"there is no table system.{name}; there are: {', '.join(sorted(self.schemas))}")


class CacheTable:
    """`system.cache`: one row about the answer cache."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"cache": _CACHE})

    def __init__(self, cache: AnswerStore) -> None:
        self._cache = cache

    def snapshot(self, _name: str) -> pa.Table:
        """Return the row as it is now."""
        return pa.Table.from_pylist([asdict(self._cache.stats())], schema=_CACHE)


class IndexTable:
    """`system.vector_indexes`: one row for each vector index."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"vector_indexes": _INDEXES})

    def __init__(self, indexes: VectorIndexes, revision: Callable[[TableName], str], model: str) -> None:
        self._indexes = indexes
        self._revision = revision
        """Returns an id of a table's content, which differs after each change."""
        self._model = model
        """The name of the embedding model."""

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows as they are now."""
        return pa.Table.from_pylist([self._index(one) for one in self._indexes.names()], schema=_INDEXES)

    def _index(self, name: str) -> dict[str, object]:
        try:
            manifest = self._indexes.manifest(name)
            self._indexes.check(name)
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
            "failed": manifest.failed,
            "bytes": sum(size for size, _ in manifest.files.values()),
            "options": json.dumps(manifest.options.as_dict()),
            "created": manifest.created,
        }
