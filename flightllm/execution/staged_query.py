"""A query whose AI calls are operators between stages: plan, rewrite, cut and run."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from datafusion import SessionContext

from flightllm.catalog.sent_parts import SentParts
from flightllm.common.cached import cached_property
from flightllm.config.session_settings import Settings
from flightllm.datafusion.errors import full_disk_mapped
from flightllm.datafusion.run import Batches
from flightllm.engines.registry import OpenModel
from flightllm.errors import UnsupportedError
from flightllm.execution.accounting import AskingQuery, FirstFits, real_bindings
from flightllm.execution.bind import (
    MERGE_JOINS,
    SEARCH_CATALOG,
    Planned,
    join_settings,
    named,
    plan_stubs,
    scalar_context,
    shown,
    unevaluated,
)
from flightllm.execution.cancel_token import stopped
from flightllm.execution.context import Services
from flightllm.execution.isolated import Isolated
from flightllm.execution.means import means_of
from flightllm.execution.plan_texts import index_lines
from flightllm.execution.row_numbers import OverStoredNumbers
from flightllm.execution.streamed import check_streams
from flightllm.functions.call import EMBEDDING, AICall, questions_of
from flightllm.observe.query_record import QueryRecord
from flightllm.operators.calibrator import Calibrator
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.run import run
from flightllm.operators.runtime import Runtime, SpoolLimits
from flightllm.optimizer import LAST_RULES, RULES, applies, counted, rewrite
from flightllm.optimizer.fuse import fuse
from flightllm.optimizer.join_by_values import join_by_values
from flightllm.optimizer.nearest_by_index import Nearest, nearest_by_index
from flightllm.optimizer.promise_rows import Shares, promise_rows
from flightllm.optimizer.reuse_calls import reuse_calls
from flightllm.plan.bounds import unbounded
from flightllm.plan.explain import explain_stages
from flightllm.plan.expressions import Functions
from flightllm.plan.nodes import AiMap, Node, Project, Scan, by_rows, joins, transform, walk
from flightllm.plan.parts import PlanPart, unique
from flightllm.plan.planner import PlannedQuery, plan_query
from flightllm.plan.stages import STAGE_CATALOG, Cutter, Relational, all_stages, scan, stage_frame
from flightllm.plan.substrait import to_plan
from flightllm.plan.trace import traced
from flightllm.sql.calls import Extracted

PROXIES = "proxies"
"""The name, in EXPLAIN's savings, of the proxies of calls that make a promise."""


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
        change: Callable[[Node], Node] = lambda root: root,
    ) -> None:
        self.services = services
        self.settings = settings
        self.extracted = extracted
        first = planned or plan_stubs(services, extracted)
        planning, frame = first.context, first.frame
        self.unbounded = unbounded(planning, frame, services.config.limits)
        quality = settings.quality
        read = plan_query(planning, frame, extracted.calls, self.unbounded, folds=quality is not None)
        width = read.root.width
        self._read = read = replace(read, root=change(read.root))
        if left_out == PROXIES:
            read = replace(read, root=transform(read.root, _without_proxies))
        added = [pa.field(f"added{n}", pa.string()) for n in range(read.root.width - width)]
        if settings.rules and left_out != nearest_by_index.__name__:
            read, extracted = _by_index(read, services, extracted)
        root, self._rules = _rewritten(read, left_out) if settings.rules else (_read_once(read), ())
        self._shares: Shares | None = None
        if quality is not None and left_out != promise_rows.__name__:
            root, self._shares = promise_rows(root, read.functions, quality, means_of(services))
            self._rules = (*self._rules, *([promise_rows.__name__] if self._shares.given else []))
        may_join = settings.rules and left_out != join_by_values.__name__ and applies(join_by_values, counted(root))
        if may_join or joins(root):
            paired = join_by_values(root, read.functions, every=settings.rules)
            root, self._rules = paired, self._rules if paired is root else (*self._rules, join_by_values.__name__)
        if settings.rules and left_out != fuse.__name__ and applies(fuse, counted(root)):
            fused = fuse(root, read.functions)
            root, self._rules = fused, self._rules if fused is root else (*self._rules, fuse.__name__)
        if extracted is not self.extracted:
            self._rules = (nearest_by_index.__name__, *self._rules)
            self.extracted = extracted
        self._stored = OverStoredNumbers(
            services, extracted, lambda found: StagedQuery(services, settings, found, left_out, change=change)
        )
        self._sent: SentParts | None = None
        self._joins = join_settings(unevaluated(services, extracted, frame) if self.unbounded else frame)
        self.merges_joins = MERGE_JOINS in self._joins
        sends = settings.rules and self.unbounded is None and bool(services.catalog.store.attached.all)
        if not sends or not self._sends(root, planning, read.functions):
            self._sent = None
            self._context = self._set_up(parallel=True)
            self._stage: Relational = Cutter(self._context, read.functions).cut(root)
        if any(call.over is not None for call in read.calls.values()):
            check_streams(self._stage, read.calls.values(), stores=services.stores)
        self.planned_schema = frame.schema()
        self.schema = pa.schema([*shown(frame, extracted, first.schema), *added])
        self._fits = FirstFits(self.extracted, settings)

    @property
    def calls(self) -> Collection[AICall]:
        """Return the query's calls, and those of the fits that it makes first."""
        shared = self._shares.given if self._shares else ()
        own = self._read.calls.values()
        return (*own, *(asked for call in own for asked in questions_of(call)), *shared, *self._fits.calls)

    def answer_columns(self) -> tuple[int, ...] | None:
        """Return the columns that depend on AI calls, or None if nothing tells the prompts of a row."""
        try:
            calls = traced(self._read.root)[1]
        except UnsupportedError:
            return None
        return tuple(sorted(frozenset[int]().union(*(call.columns for call in calls))))

    def with_nodes(self, change: Callable[[Node], Node]) -> "StagedQuery":
        """Return the same query with another plan, which can have further columns of texts after those of the query."""
        return StagedQuery(self.services, self.settings, self.extracted, change=change)

    def _sends(self, root: Node, planning: SessionContext, functions: Functions) -> bool:
        """Cut a plan whose parts run at attached databases into stages.

        Return False if there is no such part, or if a stage with one would run in a separate process: this process
        first copies the rows of its tables, and little is known of the rows of a part.
        """
        fresh = partial(scalar_context, self.services, self.extracted)
        store, loop = self.services.catalog.store, self.services.loop
        self._sent = sent = SentParts(store, loop, fresh, planning, functions)
        changed = sent.cut(root)
        if changed is root:
            return False
        self._context = self._set_up(parallel=True)
        self._stage = Cutter(self._context, functions).cut(changed)
        frames = (stage_frame(self._context, s.plan) for s in all_stages(self._stage) if sent.are_read_by(s.plan))
        return all(unbounded(self._context, frame, self.services.config.limits) is None for frame in frames)

    def _set_up(self, *, parallel: bool) -> SessionContext:
        context = scalar_context(self.services, self.extracted, parallel=parallel)
        for setting in self._joins:
            context.sql(setting)
        if self._sent is not None:
            self._sent.register(context)
        return context

    @cached_property
    def _ordered(self) -> SessionContext:
        """Return a context that keeps the order of rows, with the same stage inputs; few queries need it."""
        context = self._set_up(parallel=self.merges_joins)
        context.register_catalog_provider(STAGE_CATALOG, self._context.catalog(STAGE_CATALOG))
        return context

    def run(self, record: QueryRecord) -> Batches:
        """Run the query within the session's budget; see `run_on`."""
        if self._shares is not None and (missed := self._shares.missed()):
            record.warn(f"flightllm.quality saves nothing here, and the models were asked about all rows: {missed}")
        with real_bindings(self, record, self._fits.due) as bindings:
            yield from self.run_on(bindings, record)

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Run the stages; their spill files are removed at the end.

        Raises:
            LimitExceededError: the disk or the spill limit has no room for the spill files.
        """
        if stored := self._stored.get(record.cancelled.is_set):
            yield from stored.run_on(bindings, record)
            return
        self._fits.predict(bindings, record)
        if self._sent is not None:
            self._sent.read_keys(record.cancelled.is_set)
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
                calibrator=cache(partial(Calibrator, record.warn, fields_first=self.settings.fields_first)),
                folder=Path(folder),
                room=SpoolLimits(limits.memory_bytes // 8, limits.spill_bytes),
                elsewhere=Isolated(self.services, self.extracted),
                counts_rows=not self.services.rights.policies,
            )
            with closing(runtime):
                yield from named(run(self._stage, runtime, "result"), self.schema)

    def explain(self) -> list[tuple[str, str]]:
        """Return the rules that fired, the stages and the operators."""
        rules = ("rules", ", ".join(self._rules) or "none fired")
        indexes = index_lines(self.extracted, self.services)
        return [rules, *self._quality_lines(), *indexes, *((part.title, part.text) for part in self._parts)]

    def _quality_lines(self) -> list[tuple[str, str]]:
        quality = self.settings.quality
        if quality is None or self._shares is None:
            return []
        return [("quality", "\n".join([f"{quality}, of the rows of the result", *self._shares.lines()]))]

    def parts(self) -> Sequence[PlanPart]:
        """Return the stages and the operators."""
        return unique(self._parts)

    @cached_property
    def _parts(self) -> list[PlanPart]:
        return explain_stages(self._stage, self._context, folded=not self.unbounded)

    def variants(self, models: Mapping[str | None, OpenModel]) -> Iterator[tuple[str, Callable[[], AskingQuery]]]:
        """Yield each optimization that saves calls or tokens, with a function that plans the query without it."""
        extracted = (self._stored.query or self).extracted

        def planned(settings: Settings, left_out: str = "") -> Callable[[], AskingQuery]:
            return lambda: StagedQuery(self.services, settings, extracted, left_out)

        for name in self._rules:
            yield name, planned(self.settings, name)
        if any(call.cascades for call in self._read.calls.values()):
            yield PROXIES, planned(self.settings, PROXIES)
        if self.settings.dedup:
            yield "dedup", planned(replace(self.settings, dedup=False))
        if self.settings.rows_per_request != 1:
            yield "rows_per_request", planned(replace(self.settings, rows_per_request=1))
        if self.settings.questions_per_request != 1:
            yield "questions_per_request", planned(replace(self.settings, questions_per_request=1))
        keeps = any(model.engine.prefix_cache is not None for model in models.values())
        if self.settings.ordering != "none" and keeps:
            yield "ordering", planned(replace(self.settings, ordering="none"))
        if self.settings.layout == "auto" and keeps:
            yield "layout", planned(replace(self.settings, layout="instruction"))


def _rewritten(planned: PlannedQuery, left_out: str) -> tuple[Node, tuple[str, ...]]:
    """Apply all rules except `left_out` and `fuse`; return the root and the names of the rules that fired."""
    rules, last = (tuple(r for r in some if r.__name__ != left_out) for some in (RULES, LAST_RULES))
    return rewrite(planned.root, planned.functions, rules, last)


def _without_proxies(node: Node) -> Node:
    if not isinstance(node, AiMap):
        return node
    return replace(node, calls=tuple(replace(call, ai=_asking_all(call.ai)) for call in node.calls))


def _asking_all(call: AICall) -> AICall:
    """Return a call that asks its model about every row, without a promise and its budget."""
    return replace(call, promise=None)


def _read_once(planned: PlannedQuery) -> Node:
    """Return the plan in which equal calls over the same rows have one answer where a sample of rows decides it.

    A call of SELECT that WHERE has too would otherwise have another sample: the rows that WHERE has let through.
    """
    sampled = any(by_rows(node) for node in walk(planned.root) if isinstance(node, AiMap))
    return reuse_calls(planned.root, planned.functions) if sampled else planned.root


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
