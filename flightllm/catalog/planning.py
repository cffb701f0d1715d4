"""The plans of plain views, each made when somebody first looks the view up."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from datafusion import SessionContext
from datafusion.catalog import Table

from flightllm.catalog.entries import Entry, Planned, TableInfo
from flightllm.catalog.reading import read_by, to_plan
from flightllm.common.names import TableName, quoted
from flightllm.config import LimitsConfig
from flightllm.datafusion.contexts import QUERY_ONLY, row_types, with_types
from flightllm.datafusion.errors import mapped_error, panics_mapped
from flightllm.errors import FlightLLMError, SqlError
from flightllm.sql.unpivot_types import MARK as UNPIVOT
from flightllm.sql.unpivot_types import check_types

Entries = Mapping[TableName, Entry]


class ViewPlans:
    """Plans views over what is seen of their tables; `context` returns one that looks given entries up in a given way.

    Thread-safe. A plan is kept until something changes that the view reads, that of a view over tables of the server's
    own, which have other rows all the time, is not kept at all.
    """

    def __init__(self, limits: LimitsConfig, context: Callable[[Entries, Planned], SessionContext]) -> None:
        self._limits = limits
        self._context = context

    def looked_up(self, entry: Entry, entries: Entries) -> Entry:
        """Return an entry as `planned` does, where DataFusion asks from inside its own runtime: nothing can plan there.

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
            to_plan(entry, entries, self._limits)  # which says what views read each other
            return entry

    def planned(self, entry: Entry, entries: Entries) -> Entry:
        """Return an entry of a state of the tables, with provider and schema over the others where it is a view.

        Raises:
            LimitExceededError: the view is too large together with those that it reads.
            SqlError: it cannot be planned.
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
            with view.plan.lock:  # those beside it wait for the plan
                if view.plan.planned is None:
                    view.plan.planned = self._planned(view, seen)
            seen[view.name] = view.plan.planned
        return seen[entry.name]

    def _planned(self, view: Entry, seen: Entries) -> Entry:
        text = view.query
        if view.columns:
            columns = ", ".join(quoted(column) for column in view.columns)
            text = f"SELECT * FROM ({text}) AS {quoted(view.name.name)} ({columns})"
        planning = True

        def found(entry: Entry, entries: Entries) -> Entry:
            if entry.kind != "view" or entry.provider is not None:
                return entry
            if planning:  # whoever made plans from here could come back to this view, and wait for it
                raise SqlError(f"the view {entry.name.display!r} is to be read with FROM or JOIN")
            return self.looked_up(entry, entries)  # a list of tables, which asks as the view runs

        try:
            with panics_mapped():
                context = self._context(seen, found)
                frame = context.sql_with_options(text, QUERY_ONLY)
                if UNPIVOT in text:
                    check_types(frame.logical_plan().display_indent_schema)
                types = row_types(context, frame)
                if types != frame.schema().types:
                    frame = with_types(frame, types)
                table = Table(frame)
        except Exception as error:
            raise mapped_error(error) from error
        planning = False
        return replace(view, provider=table, schema=table.schema)

    def info(self, entry: Entry, entries: Entries) -> TableInfo:
        """Return what clients may know of a table; a view that cannot be planned has the columns that it had last."""
        try:
            return self.planned(entry, entries).info
        except FlightLLMError:
            return entry.info
