"""Explain a query: how it runs, the predicted work of its calls, and the savings of each rule.

With ANALYZE, the query runs and the work of its calls is measured.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import pyarrow as pa

from flightllm.common.names import STORED_SUFFIX
from flightllm.datafusion.run import Batches
from flightllm.datafusion.scans import noted_scans
from flightllm.engines.predict import PromptTokens
from flightllm.engines.registry import OpenModel
from flightllm.errors import AICallError, CancelledError, EngineError, FlightLLMError
from flightllm.execution.accounting import AskingQuery, costs_of, models_of, predict, prompt_tokens
from flightllm.execution.context import Services
from flightllm.execution.deferral import both_prices
from flightllm.execution.estimate import MOST_SECONDS
from flightllm.execution.plan_texts import without_sizes
from flightllm.llm.cost import ModelCosts
from flightllm.observe.query_record import QueryRecord
from flightllm.plan.cache_texts import cache_rules_text
from flightllm.plan.figures import COUNTED, CallFigures, Explained, Figures, RuleSaving, document
from flightllm.plan.parts import PlanPart
from flightllm.plan.substrait import NotExpressibleError
from flightllm.plan.table import tables

TEXT_SCHEMA = pa.schema([pa.field("plan_type", pa.string()), pa.field("plan", pa.string())])
JSON_SCHEMA = pa.schema([pa.field("plan", pa.string())])

_SAVINGS_SECONDS = 10.0
"""The time for trying all variants of a query; later variants can remain untried."""


class ShownQuery(Protocol):
    """A query whose plan can be shown."""

    services: Services

    def run(self, record: QueryRecord) -> Batches:
        """Run the query."""

    def explain(self) -> list[tuple[str, str]]:
        """Return titles and texts of the query's plan."""


@runtime_checkable
class DrawnQuery(Protocol):
    """A query whose plan is known as a graph."""

    def parts(self) -> Sequence[PlanPart]:
        """Return the parts of the query's plan; the first part runs last."""


@runtime_checkable
class PredictableQuery(AskingQuery, ShownQuery, Protocol):
    """A query with AI calls, whose work can be predicted."""

    path: str

    def variants(self, models: Mapping[str | None, OpenModel]) -> Iterator[tuple[str, Callable[[], AskingQuery]]]:
        """Yield the name of each rule applied, and a function that plans the query without the rule, for its models."""


def explain(
    query: ShownQuery,
    record: QueryRecord,
    *,
    analyze: bool,
    as_json: bool,
    savings: bool = True,
    lines: Sequence[tuple[str, str]] = (),
) -> pa.RecordBatch:
    """Return a query's plan and figures, as titles and texts or as one JSON document; `lines` come first."""
    told, costs = _told(query, record, analyze=analyze, by_rule=savings, drawn=as_json)
    told = replace(told, plan=[*lines, *told.plan])
    if as_json:
        text = json.dumps(document(told, costs), ensure_ascii=False)
        return pa.RecordBatch.from_arrays([pa.array([text])], schema=JSON_SCHEMA)
    lines = [*told.plan, *tables(told, costs)]
    return pa.RecordBatch.from_arrays([pa.array(part) for part in zip(*lines, strict=True)], schema=TEXT_SCHEMA)


def _sent(scans: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return titles and texts of the SELECTs that attached databases get."""
    return [(f"sent to {database}", text) for database, text in scans]


def _told(
    query: ShownQuery, record: QueryRecord, *, analyze: bool, by_rule: bool, drawn: bool
) -> tuple[Explained, ModelCosts]:
    def shown(text: str) -> str:
        # the sizes are those of whole tables, with the rows that a user with policies cannot see
        own = text.replace(STORED_SUFFIX, "")
        return without_sizes(own) if query.services.rights.policies else own

    with noted_scans() as sent:
        plan = [(title, shown(text)) for title, text in query.explain()]
    parts = [_shown(part, shown) for part in query.parts()] if drawn and isinstance(query, DrawnQuery) else []
    engine = query.services.engines.own_name
    if not isinstance(query, PredictableQuery):
        return Explained(
            "plain", engine, [*plan, *_sent(sent)], None, _run(query, record) if analyze else None, parts=parts
        ), ModelCosts({})
    models: Mapping[str | None, OpenModel] = {}
    predicted, savings, notes = None, [], []
    with ExitStack() as held:
        try:
            models = held.enter_context(models_of(query, record.cancelled.is_set))
            asking = _Asking(query, models, record.cancelled.is_set, prompt_tokens(models))
            with noted_scans() as sent:
                predicted = asking.predict(query)
            plan += _sent(sent)
            if (prices := both_prices(predicted.works, models, query.settings.delivery)) is not None:
                plan.append(("delivery", prices))
            savings = list(asking.savings()) if by_rule else []
        except CancelledError:
            raise
        except EngineError as error:
            notes.append(f"there is no prediction, because the query fails: {error}")
        except AICallError:
            if not models:  # a model cannot answer a call, whatever the rows are
                raise
            notes.append("there is no prediction, because the query fails on predicted answers")
        except FlightLLMError:  # the error can quote another user's answer; a real run shows the user's own error
            notes.append("there is no prediction, because the query fails on predicted answers")
        actual = _run(query, record) if analyze else None
    others = {name: model.engine.name for name, model in models.items() if name is not None}
    told = {m.engine.name: cache_rules_text(m.engine.prefix_cache, m.costs.prices) for m in models.values()}
    caches = {name: text for name, text in told.items() if text}
    found = Explained(query.path, engine, plan, predicted, actual, savings, notes, others, parts, caches)
    return found, costs_of(models)


def _shown(part: PlanPart, shown: Callable[[str], str]) -> PlanPart:
    return replace(part, kind=shown(part.kind), text=shown(part.text), operators=tuple(map(shown, part.operators)))


@dataclass(frozen=True, slots=True)
class _Asking:
    """The models and settings that the predictions of one query share."""

    query: PredictableQuery
    models: Mapping[str | None, OpenModel]
    cancelled: Callable[[], bool]
    tokens: Mapping[str | None, PromptTokens]

    def predict(self, query: AskingQuery, most_seconds: float = MOST_SECONDS) -> Figures:
        """Return the work of a variant of the query."""
        return predict(query, self.models, self.cancelled, self.tokens, most_seconds)

    def savings(self) -> Iterator[RuleSaving]:
        """Yield each rule applied to the query, and the query's work without the rule."""
        deadline = time.monotonic() + _SAVINGS_SECONDS
        for name, make in self.query.variants(self.models):
            left = deadline - time.monotonic()
            without = None
            if left > 0:
                # Without the rule, no plan exists or the plan is too deep.
                with suppress(NotExpressibleError, RecursionError):
                    without = self.predict(make(), left).works
            yield RuleSaving(name, without)


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
            notes=site["notes"],
            backend=site["backend"],
            model=site["model"],
            promise=site["promise"],
        )
        for site in record.call_rows()
    )
    return Figures(rows, tuple(sites), seconds, parts=record.part_rows())
