"""The system tables about objects that SQL creates: `system.models`, `system.prompts`, `system.functions`."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType

import pyarrow as pa

from flightllm.access.store import DEFAULT_MODEL
from flightllm.catalog.functions import CreatedFit, CreatedFunction
from flightllm.catalog.models import CreatedModel, Objects
from flightllm.common.names import CATALOG, TEMPORARY_PREFIX
from flightllm.common.redaction import redacted
from flightllm.config import EngineConfig
from flightllm.engines.prices import prices_of
from flightllm.engines.registry import Engines
from flightllm.engines.secrets import shown_options

_MODELS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "engine", "model", "options")),
        *((name, pa.float64()) for name in ("price_input", "price_output")),
        *((name, pa.bool_()) for name in ("is_default", "loaded")),
        *((name, pa.string()) for name in ("error", "created", "owner", "proxy_for")),
    ]
)
_PROMPTS = pa.schema(
    [
        ("name", pa.string()),
        ("version", pa.int64()),
        *((name, pa.string()) for name in ("text", "created", "owner")),
    ]
)

_FUNCTIONS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "parameters", "returns")),
        ("version", pa.int64()),
        *((name, pa.string()) for name in ("expression", "figures", "created", "owner")),
    ]
)
_TEMPORARY = re.compile(rf'"{CATALOG}"."{TEMPORARY_PREFIX}\w+"\.')
"""Matches the schema of a session's temporary tables, whose name means nothing to a reader."""
_FIGURES = ("precision", "recall", "accuracy")
_FILTERS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "expression", "fit_on", "features")),
        *((name, pa.int64()) for name in ("labels", "trained_on", "judged_on", "version")),
        ("labels_version", pa.string()),
        ("confidence", pa.float64()),
        ("looks", pa.int64()),
        *((f"{name}{end}", pa.float64()) for name in _FIGURES for end in ("", "_at_least")),
        *((name, pa.float64()) for name in ("f1", "mean_error", "mean_error_at_most")),
        *((name, pa.string()) for name in ("created", "owner")),
    ]
)


class ObjectTables:
    """Reads the tables from what SQL created, and from the running engines. Thread-safe."""

    def __init__(self, objects: Objects, engines: Engines) -> None:
        self._objects = objects
        self._engines = engines

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schema of every table by name."""
        return MappingProxyType({"models": _MODELS, "prompts": _PROMPTS, "functions": _FUNCTIONS, "filters": _FILTERS})

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a table as they are now."""
        if name == "prompts":
            return pa.Table.from_pylist([asdict(one) for one in self._objects.prompts()], schema=_PROMPTS)
        if name == "functions":
            return pa.Table.from_pylist([_function(one) for one in self._objects.functions()], schema=_FUNCTIONS)
        if name == "filters":
            return self._filters()
        models: list[CreatedModel | None] = [None, *self._objects.models()]
        return pa.Table.from_pylist([self._model(one) for one in models], schema=_MODELS)

    def _filters(self) -> pa.Table:
        made = [_filter(function, function.fit) for function in self._objects.functions() if function.fit is not None]
        return pa.Table.from_pylist(made, schema=_FILTERS)

    def _model(self, created: CreatedModel | None) -> dict[str, object]:
        """Return the row of a model; None stands for the server's own model."""
        config = self._engines.own_config if created is None else created.config
        prices = prices_of(config)
        loaded, error = self._engines.state(None if created is None else created.name)
        return {
            "name": DEFAULT_MODEL if created is None else created.name,
            "engine": config.kind,
            "model": config.model,
            "options": redacted(json.dumps(_options(config), default=str)),
            "price_input": None if prices is None else prices.input,
            "price_output": None if prices is None else prices.output,
            "is_default": created is None,
            "loaded": loaded,
            "error": None if error is None else redacted(error),
            "created": None if created is None else created.created,
            "owner": None if created is None else created.owner,
            "proxy_for": ", ".join(config.proxy_for) or None,
        }


def _function(function: CreatedFunction) -> dict[str, object]:
    """Return the row of a function."""
    return {
        "name": function.name,
        "parameters": ", ".join(function.parameters),
        "returns": function.returns,
        "version": function.version,
        "expression": function.body,
        "figures": json.dumps(dict(function.figures), ensure_ascii=False),
        "created": function.created,
        "owner": function.owner,
    }


def _filter(function: CreatedFunction, fit: CreatedFit) -> dict[str, object]:
    """Return the row of a learned filter."""
    return {
        **{name: function.figures.get(name) for name in _FILTERS.names},
        "name": function.name,
        "expression": function.body,
        "fit_on": _TEMPORARY.sub("pg_temp.", fit.query),
        "features": ", ".join(fit.learned.features),
        "version": function.version,
        "labels_version": fit.labels,
        "created": function.created,
        "owner": function.owner,
    }


def _options(config: EngineConfig) -> dict[str, object]:
    """Return a model's options without secrets."""
    prices = {name: getattr(config, name) for name in ("price_input", "price_cached", "price_output")}
    given = {name: price for name, price in prices.items() if price is not None}
    return {"max_in_flight": config.max_in_flight, **given, **shown_options(config.options)}
