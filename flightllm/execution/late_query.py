"""Queries whose tables in FROM ask models: evaluations, and rows to label next.

Planning finds all errors, and runs nothing. The tables have their rows once the query runs.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.engines.registry import OpenModel
from flightllm.execution.accounting import left_of, real_bindings
from flightllm.execution.batch_query import BatchQuery
from flightllm.execution.context import Services
from flightllm.execution.late_table import Bindings, LateTable
from flightllm.execution.plain_query import PlainQuery
from flightllm.execution.staged_query import StagedQuery
from flightllm.functions.call import AICall
from flightllm.observe.query_record import QueryRecord
from flightllm.sql.names import NO_NAMES, OutputNames
from flightllm.sql.parsed_text import ParsedText


class Planner(Protocol):
    """Plans a query."""

    def __call__(
        self, sql: str, tables: Mapping[str, pa.Table], settings: Settings, names: OutputNames = NO_NAMES
    ) -> "PlainQuery | BatchQuery | StagedQuery | LateQuery":
        """Plan the query `sql`, whose own tables are `tables`; `names` are the names of its columns."""


class LateQuery:
    """A query that reads one or more tables whose rows ask models."""

    path = "evaluation"

    def __init__(
        self,
        text: ParsedText,
        late: Mapping[str, LateTable],
        services: Services,
        settings: Settings,
        plan: Planner,
        names: OutputNames,
    ) -> None:
        """Take a text that names each late table; `names` are the names of its columns."""
        self.services = services
        # A NULL for want of money would count as a wrong answer.
        self.settings = replace(settings, on_budget="fail")
        self._late = late
        self._plan = partial(plan, text.sql, names=names)
        self._outer = self._plan({name: one.schema.empty_table() for name, one in late.items()}, settings=settings)
        self.schema: pa.Schema = self._outer.schema
        self.planned_schema: Any = self._outer.planned_schema

    @property
    def calls(self) -> Collection[AICall]:
        """Return the calls of all late tables."""
        return [call for one in self._late.values() for call in one.calls]

    def run(self, record: QueryRecord) -> Batches:
        """Make the late tables, and run the query on them, within the rest of the session's budget."""
        fits = [fit for one in self._late.values() for fit in one.fits]
        try:
            with real_bindings(self, record, fits) as bindings:
                tables = {name: one.rows(bindings, record) for name, one in self._late.items()}
        finally:
            for one in self._late.values():
                one.forget()
        yield from self._plan(tables, settings=replace(self.settings, **left_of(self.settings, record))).run(record)

    def run_on(self, bindings: Bindings, record: QueryRecord) -> Batches:
        """Make the late tables on some engines, and return no row: for a prediction."""
        for one in self._late.values():
            one.drain(bindings, record)
        yield from ()

    def explain(self) -> list[tuple[str, str]]:
        """Return the lines of the late tables, and the plan of the query on them."""
        return [*(line for one in self._late.values() for line in one.explain()), *self._outer.explain()]

    def variants(self, models: Mapping[str | None, OpenModel]) -> Iterator[Any]:
        """Return nothing: no rule of the optimizer is tried without."""
        del models
        yield from ()
