"""The tables of the schema `system`: of queries, the answer cache, vector indexes, models and prompts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.config import EngineConfig
from flightllm.engines import Engines
from flightllm.errors import FlightLLMError
from flightllm.llm.secrets import shown_options
from flightllm.objects import CreatedModel, Objects
from flightllm.operators.cache import AnswerCache
from flightllm.sql.names import TableName
from flightllm.system import QueryLog
from flightllm.vector.status import status
from flightllm.vector.store import VectorIndexes

_CACHE = pa.schema([(name, pa.int64()) for name in ("entries", "bytes", "max_bytes", "hits", "misses")])
"""As in `CacheStats`."""
_INDEXES = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "table", "column", "type", "metric", "model", "status")),
        *((name, pa.int64()) for name in ("dimensions", "rows", "nulls", "bytes")),
        ("options", pa.string()),
        ("created", pa.string()),
    ]
)
_MODELS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "engine", "model", "options")),
        *((name, pa.bool_()) for name in ("is_default", "loaded")),
        *((name, pa.string()) for name in ("error", "owner", "created")),
    ]
)
_PROMPTS = pa.schema(
    [
        ("name", pa.string()),
        ("version", pa.int64()),
        ("text", pa.string()),
        ("created", pa.string()),
        ("owner", pa.string()),
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
        objects: Objects,
        engines: Engines,
    ) -> None:
        self._queries = queries
        self._cache = cache
        self._indexes = indexes
        self._revision = revision
        """Tells the content of a table from another one."""
        self._model = model
        """The embedding model."""
        self._objects = objects
        self._engines = engines

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        own = {"cache": _CACHE, "vector_indexes": _INDEXES, "models": _MODELS, "prompts": _PROMPTS}
        return MappingProxyType({**own, **self._queries.schemas})

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table as they are now.

        Raises:
            NotFoundError: there is no such system table.
        """
        if name == "cache":
            return pa.Table.from_pylist([asdict(self._cache.stats())], schema=_CACHE)
        if name == "vector_indexes":
            return pa.Table.from_pylist([self._index(one) for one in self._indexes.names()], schema=_INDEXES)
        if name == "models":
            models: list[CreatedModel | None] = [None, *self._objects.models()]
            return pa.Table.from_pylist([self._model_row(one) for one in models], schema=_MODELS)
        if name == "prompts":
            return pa.Table.from_pylist([asdict(one) for one in self._objects.prompts()], schema=_PROMPTS)
        return self._queries.snapshot(name)

    def _model_row(self, created: CreatedModel | None) -> dict[str, object]:
        """Return the row of a model; None is the server's own."""
        config = self._engines.own_config if created is None else created.config
        loaded, error = self._engines.state(None if created is None else created.name)
        own = {"name": config.model} if created is None else {"name": created.name, "owner": created.owner}
        return {
            **own,
            "engine": config.kind,
            "model": config.model,
            "options": json.dumps(_options(config), default=str),
            "is_default": created is None,
            "loaded": loaded,
            "error": error,
            "created": None if created is None else created.created,
        }

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


def _options(config: EngineConfig) -> dict[str, object]:
    """Return what a model was told, but for secrets."""
    prices = {name: getattr(config, name) for name in ("price_input", "price_cached", "price_output")}
    given = {name: price for name, price in prices.items() if price is not None}
    return {"max_in_flight": config.max_in_flight, **given, **shown_options(config.options)}
