"""EXPLAIN: how a query runs, what its calls will take, what each rule saves; with ANALYZE, what they took."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol, runtime_checkable

import pyarrow as pa

from flightllm.errors import CancelledError, FlightLLMError
from flightllm.llm.predict import PromptTokens
from flightllm.operators.relational import Batches
from flightllm.plan.figures import COUNTED, CallFigures, Explained, Figures, Saving, document
from flightllm.plan.substrait import NotExpressibleError
from flightllm.plan.table import tables
from flightllm.services import Services
from flightllm.spending import AskingQuery, predict
from flightllm.system import QueryRecord

TEXT_SCHEMA = pa.schema([pa.field("plan_type", pa.string()), pa.field("plan", pa.string())])
JSON_SCHEMA = pa.schema([pa.field("plan", pa.string())])

_SAVINGS_SECONDS = 10.0
"""How long all variants of a query may be tried; the last ones may go untried."""


class ShownQuery(Protocol):
    """A query whose plan can be shown."""

    services: Services

    def run(self, record: QueryRecord) -> Batches:
        """Run it."""

    def explain(self) -> list[tuple[str, str]]:
        """Return titles and texts of its plan."""


@runtime_checkable
class PredictableQuery(AskingQuery, ShownQuery, Protocol):
    """One with AI calls, what they take can be told."""

    path: str

    def variants(self) -> Iterator[tuple[str, Callable[[], AskingQuery]]]:
        """Yield what was applied to it, and how to plan the query without that."""


def explain(query: ShownQuery, record: QueryRecord, *, analyze: bool, as_json: bool) -> pa.RecordBatch:
    """Return what there is to tell of a query, as titles and texts or as one JSON document."""
    told = _told(query, record, analyze=analyze)
    costs = query.services.costs
    if as_json:
        text = json.dumps(document(told, costs), ensure_ascii=False)
        return pa.RecordBatch.from_arrays([pa.array([text])], schema=JSON_SCHEMA)
    lines = [*told.plan, *tables(told, costs)]
    return pa.RecordBatch.from_arrays([pa.array(part) for part in zip(*lines, strict=True)], schema=TEXT_SCHEMA)


def _told(query: ShownQuery, record: QueryRecord, *, analyze: bool) -> Explained:
    plan, engine = query.explain(), query.services.engine.name
    if not isinstance(query, PredictableQuery):
        return Explained("plain", engine, plan, None, _run(query, record) if analyze else None)
    cancelled, tokens = record.cancelled.is_set, PromptTokens(query.services.engine)
    predicted, savings, notes = None, [], []
    try:
        predicted = predict(query, cancelled, tokens)
        savings = list(_savings(query, cancelled, tokens))
    except CancelledError:
        raise
    except FlightLLMError as error:  # the query's own, which running it will tell
        notes.append(f"nothing is predicted, because the query fails: {error}")
    actual = _run(query, record) if analyze else None
    return Explained(query.path, engine, plan, predicted, actual, savings, notes)


def _savings(query: PredictableQuery, cancelled: Callable[[], bool], tokens: PromptTokens) -> Iterator[Saving]:
    deadline = time.monotonic() + _SAVINGS_SECONDS
    for name, make in query.variants():
        left = deadline - time.monotonic()
        without = None
        if left > 0:
            with suppress(NotExpressibleError):  # without the rule there is no such plan
                without = predict(make(), cancelled, tokens, left).work
        yield Saving(name, without)


def _run(query: ShownQuery, record: QueryRecord) -> Figures:
    started = time.monotonic()
    rows = sum(batch.num_rows for batch in query.run(record))
    seconds = time.monotonic() - started
    sites = (
        CallFigures(
            site["operator"],
            site["function"],
            site["text"],
            {name: site[name] for name in COUNTED},
            backend=site["backend"],
        )
        for site in record.call_rows()
    )
    return Figures(rows, tuple(sites), seconds)
