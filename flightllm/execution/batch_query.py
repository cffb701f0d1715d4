"""A query whose AI calls run as batch functions."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import structlog
from datafusion import SessionContext

from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.engines.registry import OpenModel
from flightllm.errors import FlightLLMError, InvalidInputError, LimitExceededError, UnsupportedError
from flightllm.execution.accounting import AskingQuery, FirstFits, real_bindings
from flightllm.execution.bind import MERGE_JOINS, frame_of, join_settings, named, scalar_context, shown
from flightllm.execution.context import Services
from flightllm.execution.plan_texts import datafusion_plans, index_lines
from flightllm.execution.row_numbers import OverStoredNumbers
from flightllm.functions.call import AICall, questions_of
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.batch_udf import BatchFunctions
from flightllm.operators.calibrator import Calibrator
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.workers import parallel_parts
from flightllm.plan.bounds import unbounded
from flightllm.plan.parts import PlanPart, operators
from flightllm.plan.planner import register_stubs
from flightllm.sql.calls import Extracted

_PARTS = (
    ("No table named", "a table function in FROM"),
    ("in a scan", "VALUES"),
    ("RecursiveQuery", "WITH RECURSIVE"),
)
"""A part of the reason why a query has no operators, and what is at fault in the words of SQL."""

_log = structlog.get_logger(__name__)


class BatchQuery:
    """A query whose AI calls run as batch functions, because of a setting or because operators cannot run them.

    The setting `flightllm.optimizer = off` is the plain baseline: one call per row, without a cache.
    """

    path = "batch functions"

    def __init__(self, services: Services, settings: Settings, extracted: Extracted, reason: str) -> None:
        _check_samples(extracted.calls.values(), settings, reason)
        self.services = services
        self.settings = settings
        self.extracted = extracted
        self.reason = reason
        self._stored = OverStoredNumbers(
            services, extracted, lambda found: BatchQuery(services, settings, found, reason)
        )
        context = scalar_context(services, extracted, parallel=False)
        register_stubs(context, extracted.calls)
        planned = frame_of(context, extracted)
        if unlimited := unbounded(context, planned, services.config.limits):
            raise UnsupportedError(
                f"an AI call and a part without a memory bound ({unlimited}) would run in one process"
                f" ({reason}): keep the rows without the AI call in a table by CREATE TABLE … AS first"
            )
        self.planned_schema = planned.schema()
        self.schema = shown(planned, extracted)
        self._join_settings = join_settings(planned)
        self.merges_joins = MERGE_JOINS in self._join_settings
        if self.merges_joins:  # the context is then parallel, so the plan must show its parallel parts
            context = self._context()
            register_stubs(context, extracted.calls)
            planned = frame_of(context, extracted)
        self._planned = planned
        self._fits = FirstFits(extracted, settings)

    @property
    def calls(self) -> Collection[AICall]:
        """Return the query's calls, and those of the fits that it makes first."""
        own = self.extracted.calls.values()
        return (*own, *(asked for call in own for asked in questions_of(call)), *self._fits.calls)

    def _context(self) -> SessionContext:
        """Return a context whose joins are correct; it keeps the order of rows unless it needs sort-merge joins."""
        context = scalar_context(self.services, self.extracted, parallel=self.merges_joins)
        for setting in self._join_settings:
            context.sql(setting)
        return context

    def run(self, record: QueryRecord) -> Batches:
        """Run the query within the session's budget; see `run_on`."""
        if self.settings.quality is not None and self.calls:
            record.warn(
                "flightllm.quality saves nothing here, and the models were asked about all rows: the AI calls run as"
                f" batch functions ({self.reason})"
            )
        with real_bindings(self, record, self._fits.due) as bindings:
            yield from self.run_on(bindings, record)

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Run the query with functions that ask the engine, once enough of DataFusion's threads are free.

        Raises:
            LimitExceededError: the query has more parallel parts than the server has threads.
        """
        if stored := self._stored.get(record.cancelled.is_set):
            yield from stored.run_on(bindings, record)
            return
        self._fits.predict(bindings, record)
        parts = self._parts()
        yield from self.services.workers.paced(self._run(record, bindings), parts, record.cancelled.is_set)

    def variants(self, models: Mapping[str | None, OpenModel]) -> Iterator[tuple[str, Callable[[], AskingQuery]]]:
        """Yield nothing: there is no plan to change."""
        del models
        yield from ()

    def _parts(self) -> int:
        try:
            plan = self._planned.execution_plan()
        except Exception as error:  # noqa: BLE001 - DataFusion raises this class; VALUES are evaluated while planning
            _log.debug("no physical plan without calls", error=str(error))
            return 1
        parts, most = parallel_parts(plan, self.extracted.calls), self.services.workers.size
        if parts > most:
            raise LimitExceededError(
                f"{parts} parts of a UNION with AI calls would run at once, but the limit is {most}: split the query"
                f" ({self.reason})"
            )
        return parts

    def _run(self, record: QueryRecord, bindings: Mapping[str, ModelBinding]) -> Batches:
        context = self._context()
        errors: list[Exception] = []
        functions = BatchFunctions(
            bindings,
            self.settings.optimizer,
            self.settings.fields_first,
            lambda call: record.call_site(call.function, call.text, backend=call.backend, model=call.model),
            record.cancelled.is_set,
            self.services.backends.searcher,
            Calibrator(record.warn, fields_first=self.settings.fields_first),
            record.warn,
            errors,
        )
        functions.register(context, self.extracted.calls)
        frame = frame_of(context, self.extracted)
        try:
            batches = self.services.loop.stream(frame, record.cancelled.is_set, context=context)
            yield from named(batches, self.schema)
        except FlightLLMError as error:
            if errors:
                raise errors[0] from error
            raise type(error)(self.extracted.display_name(str(error))) from error

    def explain(self) -> list[tuple[str, str]]:
        """Return the reason for batch functions, the calls, and DataFusion's plans."""
        title, text = "batch functions", self._calls_text()
        try:
            plans = datafusion_plans(self._planned)
        except Exception as error:  # noqa: BLE001 - DataFusion raises this class; VALUES are evaluated while planning
            _log.debug("no physical plan without calls", error=str(error))
            plans = [("logical_plan", self._planned.optimized_logical_plan().display_indent())]
        indexes = index_lines(self.extracted, self.services)
        return [(title, text), *indexes, *((name, self.extracted.display_name(plan)) for name, plan in plans)]

    def parts(self) -> Sequence[PlanPart]:
        """Return one part, because the calls run inside of DataFusion's plan."""
        return [PlanPart("batch functions", "", self._calls_text(), (), operators(self._planned.logical_plan()))]

    def _calls_text(self) -> str:
        calls = "\n".join(call.text for call in self.extracted.calls.values())
        how = "one call per distinct prompt of a batch" if self.settings.optimizer else "one call per row"
        exact = "\neach promise is kept by asking the model about every row" if self._promises else ""
        return f"{how}: {self.reason}\n{calls}{exact}"

    @property
    def _promises(self) -> bool:
        return any(call.cascades for call in self.extracted.calls.values())


def _check_samples(calls: Collection[AICall], settings: Settings, reason: str) -> None:
    """Refuse a call over a set, or one that a sample of its rows calibrates: a function never sees all rows.

    Raises:
        InvalidInputError: there is such a call.
    """
    call = next((call for call in calls if call.by_rows or (call.over is not None and call.over.whole)), None)
    if call is None:
        return
    part = next((said for found, said in _PARTS if found in reason), f"this query ({reason})")
    why, instead = f"{part} gives it some at a time", "put the rows in a table by CREATE TABLE … AS first"
    if not settings.optimizer:
        why, instead = "flightllm.optimizer = 'off' gives it some at a time", "set it to 'on'"
    if call.over is not None:
        raise InvalidInputError(f"{call.text} needs all rows of its set at once, and {why}: {instead}")
    raise InvalidInputError(
        f"{call.text}: calibrate => 'batch' needs all rows of the call at once, and {why}: {instead}, or leave out"
        " calibrate => 'batch'"
    )
