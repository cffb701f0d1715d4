"""The plans of plain views. A view is planned at its first look-up."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from datafusion import SessionContext
from datafusion.catalog import Table

from flightllm.catalog.entries import Entry, Planned, TableInfo, view_text
from flightllm.catalog.reading import read_by, to_plan
from flightllm.common.names import TableName, quoted
from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import QUERY_ONLY, planned_text, row_types, with_types
from flightllm.datafusion.errors import mapped_error, panics_mapped
from flightllm.errors import FlightLLMError, SqlError
from flightllm.sql.unpivot_types import MARK as UNPIVOT
from flightllm.sql.unpivot_types import check_types

Entries = Mapping[TableName, Entry]


class ViewPlans:
    """Plans views over the tables that a client can see.

    `context(entries, planned)` returns a DataFusion context that finds the tables in `entries` and passes each table
    that it looks up to `planned`.

    Thread-safe. A plan is kept until a table that the view reads changes. The plan of a view over the server's own
    tables is not kept, because the rows of these tables change all the time.
    """

    def __init__(self, limits: LimitsConfig, context: Callable[[Entries, Planned], SessionContext]) -> None:
        self._limits = limits
        self._context = context

    def looked_up(self, entry: Entry, entries: Entries) -> Entry:
        """Return the result of `planned`, for look-ups that DataFusion makes inside its runtime.

        Nothing can be planned inside that runtime, so another thread plans the view.

        A view whose tables are gone or have changed has no provider.

        Raises:
            FlightLLMError: see `planned`.
        """
        if entry.kind != "view" or entry.plan.planned is not None:
            return self.planned(entry, entries)
        try:
            with ThreadPoolExecutor(1, "flightllm-views") as thread:
                return thread.submit(self.planned, entry, entries).result()
        except SqlError:
            to_plan(entry, entries, self._limits)  # raises a clearer error if views read each other
            return entry

    def planned(self, entry: Entry, entries: Entries) -> Entry:
        """Return one of `entries`; a view is planned over the other entries, and gets its provider and schema.

        Raises:
            LimitExceededError: the view and the views that it reads are too large together.
            SqlError: the view cannot be planned.
        """
        if entry.kind != "view":
            return entry
        if entry.plan.planned is not None:
            return entry.plan.planned
        seen, passing = dict(entries), set[TableName]()
        for view in to_plan(entry, entries, self._limits):
            reads = read_by(view)
            if reads.changing or not passing.isdisjoint(reads.tables):
                passing.add(view.name)
                seen[view.name] = self._planned(view, seen)
                continue
            with view.plan.lock:  # other threads wait for the plan
                if view.plan.planned is None:
                    view.plan.planned = self._planned(view, seen)
            seen[view.name] = view.plan.planned
        return seen[entry.name]

    def _planned(self, view: Entry, seen: Entries) -> Entry:
        text = view_text(view, seen)
        if view.columns:
            columns = ", ".join(quoted(column) for column in view.columns)
            text = f"SELECT * FROM ({text}) AS {quoted(view.name.name)} ({columns})"
        planning = True

        def found(entry: Entry, entries: Entries) -> Entry:
            if entry.kind != "view" or entry.provider is not None:
                return entry
            if planning:  # planning here could reach this view again, and the thread would wait for itself
                raise SqlError(f"a query can read the view {entry.name.display!r} only with FROM or JOIN")
            return self.looked_up(entry, entries)  # a list of tables looks views up while this view runs

        try:
            with panics_mapped():
                context = self._context(seen, found)
                frame = planned_text(context, text, QUERY_ONLY)
                if UNPIVOT in text:
                    check_types(frame.logical_plan().display_indent_schema)
                types = row_types(frame)
                if types != frame.schema().types:
                    frame = with_types(frame, types)
                table = Table(frame)
        except Exception as error:
            raise mapped_error(error) from error
        planning = False
        return replace(view, provider=table, schema=table.schema)

    def info(self, entry: Entry, entries: Entries) -> TableInfo:
        """Return the facts about a table that clients can see.

        A view that cannot be planned has the columns of its last plan.
        """
        try:
            return self.planned(entry, entries).info
        except FlightLLMError:
            return entry.info
