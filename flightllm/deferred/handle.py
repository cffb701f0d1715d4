"""The query that keeps a deferred statement, and returns its handle as one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.deferred.collector import no_endpoint
from flightllm.errors import UnsupportedError
from flightllm.execution.accounting import AskingQuery, checked_limits, models_of, predict
from flightllm.execution.context import Services
from flightllm.execution.deferral import DeferredStatement, forecast_of
from flightllm.functions.call import EMBEDDING, SEARCH
from flightllm.llm.batch_endpoint import batch_endpoint
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.budget import check_estimate

HANDLE: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "state")),
        ("prompts", pa.int64()),
        *((name, pa.float64()) for name in ("price", "immediate_price")),
        ("look_at", pa.string()),
    ]
)
"""The columns of a handle; the number of prompts and the prices are estimates."""
_NOW: Final = "SET flightllm.delivery = 'immediate'"


class Explained(Protocol):
    """The part of a planned query that EXPLAIN shows."""

    def explain(self) -> list[tuple[str, str]]:
        """Return titles and texts of the plan."""


@dataclass(frozen=True, slots=True)
class HandleQuery:
    """Keeps a statement with prompts for a batch endpoint; `query` is the planned query of the statement."""

    query: AskingQuery
    statement: DeferredStatement
    services: Services
    schema: pa.Schema = HANDLE

    def run(self, record: QueryRecord) -> Batches:
        """Keep the statement, and yield its handle.

        Raises:
            UnsupportedError: a model has no batch endpoint.
            BudgetExceededError: the estimate at the batch's price is above a limit, or the day's budget is spent.
        """
        deferral = self.services.deferral
        if deferral is None:
            raise UnsupportedError(f"this process keeps no deferred statements: {_NOW}")
        with models_of(self.query, record.cancelled.is_set) as models:
            for model in models.values():
                if batch_endpoint(model.engine) is None:
                    raise no_endpoint(model)
            limits = checked_limits(self.query, self.query.settings, models)
            figures = predict(self.query, models, record.cancelled.is_set)
            forecast = forecast_of(figures.works, models)
            check_estimate(limits, figures.work, forecast.price or 0.0, is_whole=figures.is_whole)
        batch_id = deferral.create(self.statement, forecast)
        row = {
            "id": batch_id,
            "state": "collecting",
            "prompts": forecast.prompts,
            "price": forecast.price,
            "immediate_price": forecast.immediate_price,
            "look_at": f"SELECT * FROM system.batches WHERE id = '{batch_id}'",
        }
        yield pa.RecordBatch.from_pylist([row], schema=HANDLE)

    def explain(self) -> list[tuple[str, str]]:
        """Return the plan of the statement's query."""
        explain = getattr(self.query, "explain", list)
        found: list[tuple[str, str]] = explain()
        return found


def check_deferrable(query: object, settings: Settings) -> None:
    """Check that a query with AI calls can be asked in rounds.

    Raises:
        UnsupportedError: the query cannot be asked in rounds; the message says why.
    """
    reason = _reason(query, settings)
    if reason is not None:
        raise UnsupportedError(f"flightllm.delivery is 'batch', but {reason}; or {_NOW}")


def _reason(query: object, settings: Settings) -> str | None:
    """Return why a query cannot be asked in rounds, with what to change; None if it can."""
    for name, why in (("optimizer", "plans"), ("cache", "answers"), ("dedup", "answers")):
        if not getattr(settings, name):
            return f"flightllm.{name} is off, and rounds share {why}: SET flightllm.{name} = 'on'"
    if getattr(query, "path", "") != "operators":
        return "the query cannot run as operators: write it with simpler expressions"
    if settings.quality is not None:
        return "flightllm.quality chooses rows by answers to other rows: RESET flightllm.quality"
    calls: Sequence[object] = getattr(query, "calls", ())
    for call in calls:
        name = getattr(call, "function", "a call")
        if getattr(call, "cascades", False):
            return f"{name} has a promise, which chooses rows by answers to other rows: leave the promise out"
        if getattr(call, "fresh", False):
            return f"{name} has fresh => true, and its answers are kept nowhere: leave fresh out"
    return None


def asks_models(query: object) -> bool:
    """Return whether a query asks language models."""
    calls = getattr(query, "calls", None)
    if calls is None:
        calls = getattr(getattr(query, "extracted", None), "calls", {}).values()
    return any(call.backend not in {EMBEDDING, SEARCH} for call in calls)
