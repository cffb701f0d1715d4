"""One query from SQL text to batches: extract AI calls, plan, rewrite, cut and run.

DataFusion runs a query without AI calls as it is.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar
from uuid import uuid4

import pyarrow as pa
import structlog
from datafusion import SessionContext
from google.protobuf.message import DecodeError

from flightllm.catalog.numbered import NumberedTable
from flightllm.common.arrow_types import value_width
from flightllm.common.cached import cached_property
from flightllm.common.stopping import check_wanted, text_is_read
from flightllm.config.session_settings import Settings
from flightllm.datafusion.errors import full_disk_mapped
from flightllm.datafusion.run import Batches, has_grouping_sets, has_join
from flightllm.engines.registry import OpenModel
from flightllm.errors import FlightLLMError, LimitExceededError, UnsupportedError
from flightllm.execution.accounting import AskingQuery, real_bindings
from flightllm.execution.bind import (
    MERGE_JOINS,
    SEARCH_CATALOG,
    Planned,
    datafusion_plans,
    extract,
    frame_of,
    join_settings,
    named,
    plan_stubs,
    scalar_context,
    shown,
    unevaluated,
    with_numbers_due,
    with_stored_numbers,
)
from flightllm.execution.cancel_token import stop_of_planning, stopped
from flightllm.execution.context import Services
from flightllm.execution.isolated import Isolated
from flightllm.execution.read_files import MAY_BE_FILE, replace_files
from flightllm.execution.whole_table import WholeTable, read, whole_table
from flightllm.functions.call import EMBEDDING, SEARCH, AICall
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.batch_udf import BatchFunctions
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.run import run
from flightllm.operators.runtime import Runtime, SpoolLimits
from flightllm.operators.workers import parallel_parts
from flightllm.optimizer import LAST_RULES, RULES, applies, counted, rewrite
from flightllm.optimizer.fuse import fuse
from flightllm.optimizer.nearest_by_index import Nearest, nearest_by_index
from flightllm.plan.bounds import unbounded
from flightllm.plan.explain import explain_stages
from flightllm.plan.nodes import Node, Project, Scan
from flightllm.plan.planner import PlannedQuery, plan_query, register_stubs
from flightllm.plan.stages import STAGE_CATALOG, Cutter, Relational, scan, stage_frame
from flightllm.plan.substrait import NotExpressibleError, to_plan
from flightllm.sql.calls import Extracted
from flightllm.sql.guard import check_sql
from flightllm.sql.names import NO_NAMES, OutputNames
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.semantic_joins import Pairs, SemanticJoin, replace_semantic_joins
from flightllm.sql.table_functions import TableCall, replace_table_functions

_log = structlog.get_logger(__name__)
_FILE = f"{SEARCH_CATALOG}.public.file"
"""The prefix of the names of tables that stand for files in FROM."""

_BATCH_ROWS = 8_192
"""DataFusion's default number of rows in a batch."""
_MOST_BATCH_ROWS = 131_072
_BATCH_BYTES = 2 << 20
"""Narrow rows come in batches of up to this size: fewer batches are quicker to send."""

_Q = TypeVar("_Q")


class Query(Protocol):
    """A planned query that has not run yet."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema that users see."""

    def run(self, record: QueryRecord) -> Batches:
        """Run the query; closing the iterator or cancelling the record stops it."""

    def explain(self) -> list[tuple[str, str]]:
        """Return titles and texts of the plan."""


def plan(
    text: ParsedText,
    services: Services,
    settings: Settings,
    tables: Mapping[str, pa.Table | NumberedTable] = MappingProxyType({}),
    *,
    names: OutputNames = NO_NAMES,
) -> "PlainQuery | BatchQuery | StagedQuery":
    """Plan one SELECT, SHOW or DESCRIBE text whose parameters are bound.

    `tables` are tables of only this query, by names in `SEARCH_CATALOG`. `names` are the names of its columns.

    Raises:
        SqlError: the text cannot be planned, or an AI call in it is wrong (`AICallError`).
    """
    given, text = text, services.catalog.inline_views(text)
    if text is not given:
        check_sql(text, services.config.limits)
    text, read = _files_read(text, services)
    tables = {**tables, **read}
    extracted, planned = Extracted(text.sql, {}, tables), None
    if services.functions.may_be_in(text.sql):
        text, found, searched = _searched(text, services, settings)
        extracted, planned = extract(text, services, {**tables, **found})
        extracted = replace(extracted, searched=searched)
    check_wanted()
    query = plan_extracted(replace(extracted, names=names), services, settings, planned)
    text_is_read()
    return query


def plan_extracted(
    extracted: Extracted, services: Services, settings: Settings, planned: Planned | None = None
) -> "PlainQuery | BatchQuery | StagedQuery":
    """Plan a query whose AI calls are already stubs; `planned` is its first plan, if that exists."""
    query = _planned(extracted, services, settings, planned)
    # Sort-merge joins need a parallel context, in which rows cannot be numbered.
    due = with_numbers_due(extracted) if query.merges_joins else None
    return query if due is None else _planned(due, services, settings)


def _planned(
    extracted: Extracted, services: Services, settings: Settings, planned: Planned | None = None
) -> "PlainQuery | BatchQuery | StagedQuery":
    if not extracted.calls:
        return PlainQuery(services, extracted)
    if not settings.optimizer:
        return BatchQuery(services, settings, extracted, "the setting flightllm.optimizer is off")
    try:
        return StagedQuery(services, settings, extracted, planned=planned)
    except NotExpressibleError as reason:
        return BatchQuery(services, settings, extracted, str(reason))
    except DecodeError:  # protobuf's limit
        return BatchQuery(services, settings, extracted, "its expressions are too deep")


def _files_read(text: ParsedText, services: Services) -> tuple[ParsedText, Mapping[str, pa.Table]]:
    """Read the files in FROM; return the text with tables in their place, and these tables by name."""
    tables: dict[str, pa.Table] = {}

    def kept(found: pa.Table) -> str:
        name = f"{_FILE}{uuid4().hex}"
        tables[name] = found
        return name

    if not MAY_BE_FILE.search(text.sql):
        return text, tables
    return replace_files(text, services, kept), tables


def _searched(
    text: ParsedText, services: Services, settings: Settings
) -> tuple[ParsedText, Mapping[str, pa.Table], frozenset[str]]:
    """Run the searches in FROM and ON; return the text with tables in their place, the tables, and the indexes."""
    tables: dict[str, pa.Table] = {}
    indexes: set[str] = set()

    def rows(sql: str) -> pa.Table:
        query = plan(ParsedText(sql), services, settings)
        with closing(query.run(QueryRecord("", sql, stop_of_planning()))) as batches:
            return pa.Table.from_batches(batches, query.schema)

    def table(call: TableCall) -> str:
        from flightllm.execution.vector_search import search_table

        text_is_read()  # a search asks an endpoint: no other text waits for that
        return kept(call.index, search_table(call, rows))

    def pairs(join: SemanticJoin) -> Pairs:
        from flightllm.execution.vector_search import join_table

        text_is_read()
        found, column = join_table(join, services, rows)
        return Pairs(kept(join.index, found), column)

    def kept(index: str, found: pa.Table) -> str:
        name = f"{SEARCH_CATALOG}.public.found{len(tables)}"
        tables[name] = found
        indexes.add(index)
        return name

    if not services.functions.may_search(text.sql):
        return text, tables, frozenset()
    joined = replace_semantic_joins(text, services.functions, pairs)
    return replace_table_functions(joined, services.functions, table), tables, frozenset(indexes)


def _index_lines(extracted: Extracted, services: Services) -> list[tuple[str, str]]:
    if not extracted.searched and all(call.backend != SEARCH for call in extracted.calls.values()):
        return []
    from flightllm.execution.vector_search import index_lines

    return index_lines(extracted, services)


class _OverStoredNumbers(Generic[_Q]):
    """Plans a query again over stored row numbers, once, when the query first runs."""

    def __init__(self, services: Services, extracted: Extracted, planned: Callable[[Extracted], _Q]) -> None:
        self._services = services
        self._extracted = extracted
        self._planned = planned
        self.query: _Q | None = None
        """None before the first run, and for a query without due tables."""

    def get(self, cancelled: Callable[[], bool]) -> _Q | None:
        """Return the query to run instead; None for a query without due tables.

        Raises:
            CancelledError: `cancelled()` turned true.
            LimitExceededError: the disk is full.
        """
        if self.query is None:
            found = with_stored_numbers(self._services, self._extracted, cancelled)
            self.query = None if found is None else self._planned(found)
        return self.query


class PlainQuery:
    """A query without AI calls; DataFusion runs it."""

    def __init__(self, services: Services, extracted: Extracted) -> None:
        self.services = services
        self.extracted = extracted
        self._stored = _OverStoredNumbers(services, extracted, lambda found: PlainQuery(services, found))
        context = scalar_context(services, extracted)
        planned = frame_of(context, extracted)
        self.planned_schema = planned.schema()
        """DataFusion's own schema, before `shown` maps types to the plain types of clients."""
        self.schema = shown(planned, extracted)
        self.unbounded = unbounded(context, planned, services.config.limits)
        """Why the query can exceed its share of memory and runs in a separate process, or None if it does not."""
        settings = join_settings(unevaluated(services, extracted, planned) if self.unbounded else planned)
        self.merges_joins = MERGE_JOINS in settings
        """Whether the query's outer joins are correct only as sort-merge joins."""
        rows = _BATCH_BYTES // max(1, sum(value_width(f.type) for f in self.schema))
        # A join can stop only between two batches, and a row can have many pairs; so joins keep small batches.
        # Grouping sets take memory for all groups of a batch before DataFusion counts that memory.
        logical = planned.logical_plan()
        if rows > _BATCH_ROWS and not has_join(logical) and not has_grouping_sets(logical):
            settings.append(f"SET datafusion.execution.batch_size = {min(rows, _MOST_BATCH_ROWS)}")
        for setting in settings:
            context.sql(setting)
        self._context = context
        self.frame = context.create_dataframe_from_logical_plan(planned.logical_plan())
        """The same plan under these settings: a frame keeps the settings from the time of its creation."""

    def run(self, record: QueryRecord) -> Batches:
        """Stream DataFusion's batches."""
        cancelled = record.cancelled.is_set
        if self.unbounded is not None:
            yield from named(Isolated(self.services, self.extracted).stream(self._context, cancelled), self.schema)
        elif stored := self._stored.get(cancelled):
            yield from stored.run(record)
        else:
            table = whole_table(self.services, self.frame)
            rows = self._decoded(cancelled) if table is None else self._read(table, cancelled)
            yield from named(rows, self.schema)

    def _decoded(self, cancelled: Callable[[], bool]) -> Batches:
        frame = self._context.create_dataframe_from_logical_plan(self.frame.logical_plan())
        return self.services.loop.stream(frame, cancelled, ahead=True, context=self._context)

    def _read(self, table: WholeTable, cancelled: Callable[[], bool]) -> Batches:
        return read(self.services, table, lambda: self._decoded(cancelled), cancelled)

    def explain(self) -> list[tuple[str, str]]:
        """Return DataFusion's plans."""
        lines = _index_lines(self.extracted, self.services)
        if self.unbounded is None:
            return [*lines, *datafusion_plans(self.frame, context=self._context)]
        physical = Isolated(self.services, self.extracted).physical_plan(self._context, stopped)
        return [
            *lines,
            ("isolation", f"runs in a separate process: {self.unbounded}"),
            *datafusion_plans(self.frame, physical),
        ]


class BatchQuery:
    """A query whose AI calls run as batch functions, because of a setting or because operators cannot run them.

    The setting `flightllm.optimizer = off` is the plain baseline: one call per row, without a cache.
    """

    path = "batch functions"

    def __init__(self, services: Services, settings: Settings, extracted: Extracted, reason: str) -> None:
        self.services = services
        self.settings = settings
        self.extracted = extracted
        self._reason = reason
        self._stored = _OverStoredNumbers(
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
        self.calls: Collection[AICall] = extracted.calls.values()

    def _context(self) -> SessionContext:
        """Return a context whose joins are correct; it keeps the order of rows unless it needs sort-merge joins."""
        context = scalar_context(self.services, self.extracted, parallel=self.merges_joins)
        for setting in self._join_settings:
            context.sql(setting)
        return context

    def run(self, record: QueryRecord) -> Batches:
        """Run the query within the session's budget; see `run_on`."""
        with real_bindings(self, record) as bindings:
            yield from self.run_on(bindings, record)

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Run the query with functions that ask the engine, once enough of DataFusion's threads are free.

        Raises:
            LimitExceededError: the query has more parallel parts than the server has threads.
        """
        if stored := self._stored.get(record.cancelled.is_set):
            yield from stored.run_on(bindings, record)
            return
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
                f" ({self._reason})"
            )
        return parts

    def _run(self, record: QueryRecord, bindings: Mapping[str, ModelBinding]) -> Batches:
        context = self._context()
        errors: list[Exception] = []
        functions = BatchFunctions(
            bindings,
            self.settings.optimizer,
            lambda call: record.call_site(call.function, call.text, backend=call.backend, model=call.model),
            record.cancelled.is_set,
            self.services.backends.searcher,
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
        calls = "\n".join(call.text for call in self.extracted.calls.values())
        how = "one call per distinct prompt of a batch" if self.settings.optimizer else "one call per row"
        title, text = "batch functions", f"{how}: {self._reason}\n{calls}"
        try:
            plans = datafusion_plans(self._planned)
        except Exception as error:  # noqa: BLE001 - DataFusion raises this class; VALUES are evaluated while planning
            _log.debug("no physical plan without calls", error=str(error))
            plans = [("logical_plan", self._planned.optimized_logical_plan().display_indent())]
        indexes = _index_lines(self.extracted, self.services)
        return [(title, text), *indexes, *((name, self.extracted.display_name(plan)) for name, plan in plans)]


class StagedQuery:
    """A query whose AI calls are operators between relational stages."""

    path = "operators"

    def __init__(
        self,
        services: Services,
        settings: Settings,
        extracted: Extracted,
        left_out: str = "",
        *,
        planned: Planned | None = None,
    ) -> None:
        self.services = services
        self.settings = settings
        self.extracted = extracted
        first = planned or plan_stubs(services, extracted)
        planning, frame = first.context, first.frame
        self.unbounded = unbounded(planning, frame, services.config.limits)
        read = plan_query(planning, frame, extracted.calls, self.unbounded)
        if settings.rules and left_out != nearest_by_index.__name__:
            read, extracted = _by_index(read, services, extracted)
        root, self._rules = _rewritten(read, left_out) if settings.rules else (read.root, ())
        if extracted is not self.extracted:
            self._rules = (nearest_by_index.__name__, *self._rules)
            self.extracted = extracted
        self._stored = _OverStoredNumbers(
            services, extracted, lambda found: StagedQuery(services, settings, found, left_out)
        )
        self._joins = join_settings(unevaluated(services, extracted, frame) if self.unbounded else frame)
        self.merges_joins = MERGE_JOINS in self._joins
        self._context = self._set_up(parallel=True)
        self._stage: Relational = Cutter(self._context, read.functions).cut(root)
        self.planned_schema = frame.schema()
        self.schema = shown(frame, extracted, first.schema)
        self.calls: Collection[AICall] = extracted.calls.values()

    def _set_up(self, *, parallel: bool) -> SessionContext:
        context = scalar_context(self.services, self.extracted, parallel=parallel)
        for setting in self._joins:
            context.sql(setting)
        return context

    @cached_property
    def _ordered(self) -> SessionContext:
        """Return a context that keeps the order of rows, with the same stage inputs; few queries need it."""
        context = self._set_up(parallel=self.merges_joins)
        context.register_catalog_provider(STAGE_CATALOG, self._context.catalog(STAGE_CATALOG))
        return context

    def run(self, record: QueryRecord) -> Batches:
        """Run the query within the session's budget; see `run_on`."""
        with real_bindings(self, record) as bindings:
            yield from self.run_on(bindings, record)

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Run the stages; their spill files are removed at the end.

        Raises:
            LimitExceededError: the disk or the spill limit has no room for the spill files.
        """
        if stored := self._stored.get(record.cancelled.is_set):
            yield from stored.run_on(bindings, record)
            return
        limits = self.services.config.limits
        with (
            full_disk_mapped(),
            TemporaryDirectory(prefix="flightllm-", dir=limits.spill_folder, ignore_cleanup_errors=True) as folder,
        ):
            runtime = Runtime(
                context=self._context,
                in_order=lambda: self._ordered,
                bindings=bindings,
                searcher=self.services.backends.searcher,
                settings=self.settings,
                loop=self.services.loop,
                record=record,
                folder=Path(folder),
                room=SpoolLimits(limits.memory_bytes // 8, limits.spill_bytes),
                elsewhere=Isolated(self.services, self.extracted),
            )
            with closing(runtime):
                yield from named(run(self._stage, runtime), self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the rules that fired, the stages and the operators."""
        rules = ("rules", ", ".join(self._rules) or "none fired")
        indexes = _index_lines(self.extracted, self.services)
        return [rules, *indexes, *explain_stages(self._stage, self._context, folded=not self.unbounded)]

    def variants(self, models: Mapping[str | None, OpenModel]) -> Iterator[tuple[str, Callable[[], AskingQuery]]]:
        """Yield each optimization that saves calls or tokens, with a function that plans the query without it."""
        extracted = (self._stored.query or self).extracted

        def planned(settings: Settings, left_out: str = "") -> Callable[[], AskingQuery]:
            return lambda: StagedQuery(self.services, settings, extracted, left_out)

        for name in self._rules:
            yield name, planned(self.settings, name)
        if self.settings.dedup:
            yield "dedup", planned(replace(self.settings, dedup=False))
        keeps = any(model.engine.prefix_cache is not None for model in models.values())
        if self.settings.ordering != "none" and keeps:
            yield "ordering", planned(replace(self.settings, ordering="none"))


def _rewritten(planned: PlannedQuery, left_out: str) -> tuple[Node, tuple[str, ...]]:
    """Apply all rules except `left_out`, with `fuse` last; return the root and the names of the rules that fired."""
    rules, last = (tuple(r for r in some if r.__name__ != left_out) for some in (RULES, LAST_RULES))
    root, fired = rewrite(planned.root, planned.functions, rules, last)
    fuses = left_out != fuse.__name__ and applies(fuse, counted(root))
    fused = fuse(root, planned.functions) if fuses else root
    return fused, fired if fused is root else (*fired, fuse.__name__)


def _by_index(planned: PlannedQuery, services: Services, extracted: Extracted) -> tuple[PlannedQuery, Extracted]:
    """Read only the nearest rows of tables, by their indexes, if the query drops all other rows."""
    if not any(call.backend == EMBEDDING for call in extracted.calls.values()) or not services.indexes.names():
        return planned, extracted
    from flightllm.execution.vector_search import nearest_rows

    def find(nearest: Nearest) -> Scan | None:
        nonlocal extracted

        def matching(rows: pa.Table) -> pa.ChunkedArray:
            name = f"{SEARCH_CATALOG}.public.rows"
            own = replace(extracted, tables={name: rows}, plan=None)
            context = scalar_context(services, own, parallel=False)
            condition = planned.functions.conjunction(nearest.conditions)
            plan = to_plan(Project(scan(context, name), (condition,)), planned.functions)
            frame, isolated = stage_frame(context, plan), Isolated(services, own)
            if isolated.bounded(context, frame):
                found = services.loop.stream(frame, stopped)
            else:
                found = isolated.stream(context, stopped, plan)
            with closing(found) as batches:
                return pa.chunked_array([batch.column(0) for batch in batches], pa.bool_())

        found = nearest_rows(nearest, services, matching)
        if found is None:
            return None
        name = f"{SEARCH_CATALOG}.public.found{len(extracted.tables)}"
        tables, searched = {**extracted.tables, name: found.rows}, extracted.searched | {found.index}
        extracted = replace(extracted, tables=tables, searched=searched)
        return scan(scalar_context(services, extracted, planning=True), name)

    return replace(planned, root=nearest_by_index(planned.root, planned.functions, find)), extracted


def is_lasting(query: Query) -> bool:
    """Return whether a plan holds only text and tables: no rows of a search or of a file in FROM, and no index."""
    if not isinstance(query, PlainQuery | BatchQuery | StagedQuery):
        return False
    extracted = query.extracted
    searches = any(call.backend in {SEARCH, EMBEDDING} for call in extracted.calls.values())
    files = any(name.startswith(_FILE) for name in extracted.tables)  # a file can change
    return not (searches or files or extracted.searched or extracted.opened)


def uses_ai(text: ParsedText, services: Services, settings: Settings) -> bool:
    """Return whether the text, or a view that it reads, has AI calls."""
    text = services.catalog.inline_views(text)
    if not services.functions.may_be_in(text.sql):
        return False
    text, read = _files_read(text, services)
    text, tables, _ = _searched(text, services, settings)
    extracted, _ = extract(text, services, {**read, **tables})
    return bool(extracted.calls)
