"""A query without AI calls; DataFusion runs it as it is."""

from collections.abc import Callable, Sequence
from functools import partial

from flightllm.catalog.sent_parts import SentParts, sent_frame
from flightllm.common.arrow_types import value_width
from flightllm.datafusion.run import Batches, has_grouping_sets, has_join
from flightllm.execution.bind import MERGE_JOINS, frame_of, join_settings, named, scalar_context, shown, unevaluated
from flightllm.execution.cancel_token import stopped
from flightllm.execution.context import Services
from flightllm.execution.isolated import Isolated
from flightllm.execution.plan_texts import datafusion_plans, index_lines
from flightllm.execution.row_numbers import OverStoredNumbers
from flightllm.execution.whole_table import WholeTable, read, whole_table
from flightllm.observe.query_record import QueryRecord
from flightllm.plan.bounds import unbounded
from flightllm.plan.parts import PlanPart, relational_parts
from flightllm.sql.calls import Extracted

_BATCH_ROWS = 8_192
"""DataFusion's default number of rows in a batch."""
_MOST_BATCH_ROWS = 131_072
_BATCH_BYTES = 2 << 20
"""Narrow rows come in batches of up to this size: fewer batches are quicker to send."""


class PlainQuery:
    """A query without AI calls; DataFusion runs it."""

    def __init__(self, services: Services, extracted: Extracted, *, sends: bool = True) -> None:
        """Plan the query; with `sends`, parts of it run at the attached databases that have their tables."""
        self.services = services
        self.extracted = extracted
        self._stored = OverStoredNumbers(services, extracted, lambda found: PlainQuery(services, found, sends=sends))
        context = scalar_context(services, extracted)
        planned = frame_of(context, extracted)
        self.planned_schema = planned.schema()
        """DataFusion's own schema, before `shown` maps types to the plain types of clients."""
        self.schema = shown(planned, extracted)
        self.unbounded = unbounded(context, planned, services.config.limits)
        """Why the query can exceed its share of memory and runs in a separate process, or None if it does not."""
        sends = sends and bool(services.catalog.store.attached.all)
        fresh = partial(scalar_context, services, extracted)
        parts = partial(SentParts, services.catalog.store, services.loop, fresh, context)
        self._parts: SentParts | None = None
        sent = sent_frame(parts, planned, self.unbounded) if sends else None
        if sent is not None and unbounded(context, sent[0], services.config.limits) is None:
            (planned, self._parts), self.unbounded = sent, None
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
        if self._parts is not None:
            self._parts.read_keys(cancelled)
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

    def parts(self) -> Sequence[PlanPart]:
        """Return the relational operators."""
        bounded = self.unbounded is None
        return relational_parts(self.frame.optimized_logical_plan() if bounded else self.frame.logical_plan())

    def explain(self) -> list[tuple[str, str]]:
        """Return DataFusion's plans."""
        lines = index_lines(self.extracted, self.services)
        if self.unbounded is None:
            return [*lines, *datafusion_plans(self.frame, context=self._context)]
        physical = Isolated(self.services, self.extracted).physical_plan(self._context, stopped)
        return [
            *lines,
            ("isolation", f"runs in a separate process: {self.unbounded}"),
            *datafusion_plans(self.frame, physical),
        ]
