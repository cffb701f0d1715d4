"""The result of a statement: lazy until somebody asks for its rows."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from html import escape
from itertools import islice
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from flightllm.client import Progress
from flightllm.common.amounts import counted
from flightllm.connection.backend import Change, Planned, Run
from flightllm.connection.callers import plain_errors, warn
from flightllm.connection.cost import Cost, may_call, spent_by
from flightllm.connection.display import SHOWN_ROWS, html_table, text_schema, text_table
from flightllm.connection.progress_bar import CallsBar
from flightllm.connection.render import rows_of
from flightllm.errors import FlightLLMError, InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame

Description: TypeAlias = tuple[str, str, None, None, None, None, None]
"""A column of PEP 249: its name, its type, and five values that no database here has."""
_HINT = "this statement asks a model and has not run: .show(), .df(), .pl(), .arrow() or .fetchall() runs it"


_MORE = "more rows follow, and .df() runs the query again"
_KEPT_ROWS, _KEPT_BYTES = 10_000, 8 << 20
"""The most rows and bytes that a result keeps because it was shown. Beyond this, it keeps only what it shows."""


class Plan(str):
    """The text of a plan, which Python's prompt and notebooks show with its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Asker(Protocol):
    """The side of a connection that its results use."""

    def bar(self) -> CallsBar:
        """Return a new bar."""

    def ready(self, frames: dict[str, Any]) -> None:
        """Check that the connection is open, and that the frames that a query reads are its tables."""

    def explained(self, sql: str, parameters: pa.RecordBatch | None, options: str) -> pa.Table:
        """Return the rows of EXPLAIN."""

    def predicted(self, sql: str, parameters: pa.RecordBatch | None) -> Cost | None:
        """Return the predicted cost; None where the statement has no AI call."""


class Result:
    """The result of one statement. Safe to use from several threads.

    A query runs when somebody first asks for rows, and its rows stay, so that no second question costs anything.
    Only `batches` does not keep them. A change has run already.
    """

    def __init__(
        self,
        of: Asker,
        sql: str,
        parameters: pa.RecordBatch | None,
        found: Planned | Change,
        frames: dict[str, Any],
    ) -> None:
        self._of = of
        self._sql = sql
        self._parameters = parameters
        self._frames = frames
        self._lock = RLock()
        self._table: pa.Table | None = None
        self._used: Callable[[], Progress | None] | None = None
        """Returns the work of the statement, once it has run."""
        self._spent: Cost | None = None
        self._predicted: list[Cost | None] = []
        """The prediction, once it was asked for."""
        self._head: pa.Table | None = None
        """The first rows of a query that has more rows than a shown result keeps."""
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._planned: Planned | None = None
        self.affected: int | None = None
        """The number of rows that a change changed; None for a query, and where the statement does not count rows."""
        if isinstance(found, Change):
            self.affected = found.affected
            self._changed = True
            self._table = found.rows if found.rows is not None else pa.table({})
            self._ran(found.used)
        else:
            self._changed = False
            self._planned = found

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with their types; the query does not run for it."""
        return self._table.schema if self._table is not None else self._query.schema

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns; the query does not run for it."""
        return list(self.schema.names)

    @property
    def types(self) -> list[pa.DataType]:
        """Return the types of the columns; the query does not run for it."""
        return list(self.schema.types)

    @property
    def description(self) -> list[Description]:
        """Return the columns as Python's database API (PEP 249) does."""
        return [(field.name, str(field.type), None, None, None, None, None) for field in self.schema]

    @property
    def sql(self) -> str:
        """Return the text of the statement."""
        return self._sql

    @property
    def has_run(self) -> bool:
        """Return whether the rows are here."""
        return self._table is not None

    @property
    def _query(self) -> Planned:
        assert self._planned is not None  # noqa: S101 - a change has its table
        return self._planned

    @plain_errors
    def arrow(self) -> pa.Table:
        """Run the query, unless it has run; return its rows as a table of Arrow.

        Raises:
            FlightLLMError: the query failed.
        """
        with self._lock:
            if self._table is None:
                self._table = pa.Table.from_batches(list(self.batches()), self.schema)
            return self._table

    def df(self, **options: Any) -> "PandasFrame":
        """Run the query, unless it has run; return its rows as a frame of pandas.

        `options` are those of `pyarrow.Table.to_pandas`, such as `types_mapper=pandas.ArrowDtype`.

        Raises:
            FlightLLMError: the query failed.
            UnsupportedError: pandas is not installed.
        """
        try:
            import pandas as _  # noqa: F401, ICN001
        except ImportError as error:
            raise UnsupportedError("pandas is not installed: pip install pandas") from error
        frame: PandasFrame = self.arrow().to_pandas(**options)
        return frame

    def pl(self) -> "PolarsFrame":
        """Run the query, unless it has run; return its rows as a frame of polars.

        Raises:
            FlightLLMError: the query failed.
            UnsupportedError: polars is not installed.
        """
        try:
            from polars import DataFrame, from_arrow
        except ImportError as error:
            raise UnsupportedError("polars is not installed: pip install polars") from error
        frame = from_arrow(self.arrow())
        assert isinstance(frame, DataFrame)  # noqa: S101 - a table gives a frame, an array gives a series
        return frame

    def batches(self) -> Generator[pa.RecordBatch]:
        """Yield the rows as they come, without keeping them; a query runs again for each call until `arrow` has run.

        An end before the last batch stops the query.

        Raises:
            FlightLLMError: the query failed.
        """
        if self._table is not None:
            yield from self._table.to_batches()
            return
        with self._of.bar() as bar:
            self._of.ready(self._frames)
            run = self._query.run(bar.look)
            try:
                for batch in run.batches:
                    bar.close()
                    yield batch
            finally:
                _close(run)
                self._ran(run.used)

    def _ran(self, used: Callable[[], Progress | None]) -> None:
        """Note that the statement has run. Ask for its cost at once only if it can have model calls."""
        self._used, self._spent = used, None
        if may_call(self._sql):
            self._settle()

    def _settle(self) -> None:
        if self._used is not None and (used := self._used()) is not None:
            self._spent, self._used = spent_by(used), None
            for text in used.warnings:
                warn(text)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows to other libraries, as Arrow's stream interface describes."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield all rows as tuples; times have microseconds, and their nanoseconds are cut."""
        return iter(rows_of(self.arrow().to_batches(), shown=False))

    def __len__(self) -> int:
        """Run the query, unless it has run; return the number of its rows."""
        return int(self.arrow().num_rows)

    def __bool__(self) -> bool:
        """Return True; the query does not run for it."""
        return True

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last one."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return at most `size` next rows."""
        with self._lock:
            if self._rows is None:
                self._rows = iter(self)
            return list(islice(self._rows, size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that were not fetched yet."""
        with self._lock:
            if self._rows is None:
                self._rows = iter(self)
            return list(self._rows)

    @plain_errors
    def explain(self, *, analyze: bool = False) -> Plan:
        """Return the plan, with the calls and the price that it predicts; `analyze` runs the statement for it.

        Raises:
            FlightLLMError: the statement has no plan.
        """
        self._of.ready(self._frames)
        rows = self._of.explained(self._sql, self._parameters, "ANALYZE" if analyze else "").to_pylist()
        return Plan("\n\n".join(f"{row['plan_type']}\n{row['plan']}" for row in rows))

    @plain_errors
    def cost(self) -> Cost:
        """Return what the statement has spent; before it has run, what it will spend by prediction.

        Raises:
            FlightLLMError: the cost cannot be predicted.
        """
        self._settle()
        if self._spent is not None:
            return self._spent
        return Cost(spent=True) if self._changed else self._prediction() or Cost()

    def _prediction(self) -> Cost | None:
        """Return the predicted cost, which is asked for once; None where the statement asks no model."""
        with self._lock:
            if not self._predicted:
                self._of.ready(self._frames)
                free = self._planned is not None and self._planned.is_free
                self._predicted.append(None if free else self._of.predicted(self._sql, self._parameters))
            return self._predicted[0]

    def show(self, rows: int = SHOWN_ROWS) -> None:
        """Run the query, unless it has run; print its first rows."""
        self.arrow()
        print(self._text(rows))  # noqa: T201 - what the method is for

    def __repr__(self) -> str:
        """Show the first rows, if that asks no model; else the columns and the predicted cost."""
        try:
            return self._text(SHOWN_ROWS)
        except FlightLLMError as error:
            return f"<Result of {self._sql!r}: {error}>"

    def _repr_html_(self) -> str:
        try:
            unpaid = self.unpaid()
            if unpaid is not None:
                columns = escape(text_schema(self.schema))
                return f"<pre>{columns}\n{escape(str(unpaid))}\n{escape(_HINT)}</pre>"
            if self._changed and not len(self.schema):
                return f"<pre>{escape(self._told_change())}</pre>"
            rows, more = self._first(SHOWN_ROWS)
            return f"{html_table(self.schema, rows)}<small>{escape(self._footer(rows, more))}</small>"
        except FlightLLMError as error:
            return f"<pre>{escape(str(error))}</pre>"

    def _text(self, count: int) -> str:
        unpaid = self.unpaid()
        if unpaid is not None:
            return f"{text_schema(self.schema)}\n{unpaid}\n{_HINT}"
        if self._changed and not len(self.schema):
            return self._told_change()
        rows, more = self._first(count)
        return f"{text_table(self.schema, rows)}\n{self._footer(rows, more)}"

    def unpaid(self) -> Cost | None:
        """Return the predicted cost of a query that asks a model and has not run; else None."""
        return None if self._table is not None else self._prediction()

    def check_free(self, name: str) -> None:
        """Check that the rows are here, or that no model is asked for them.

        Raises:
            InvalidInputError: the rows would cost calls of a model.
        """
        if self.unpaid() is not None:
            raise InvalidInputError(f"the result {name} asks a model and has not run: {name}.arrow() runs it")

    def _told_change(self) -> str:
        return "done" if self.affected is None else f"{counted(self.affected, 'row')} changed"

    def _first(self, count: int) -> tuple[Sequence[tuple[Any, ...]], bool]:
        """Return the first rows, and whether there are more. A query that has not run does so, and keeps few rows."""
        with self._lock:
            if self._table is None and self._head is None:
                self._peek(count)
            table = self._head if self._table is None else self._table
            assert table is not None  # noqa: S101 - one of them is there now
            rows = list(rows_of(table.slice(0, count).to_batches()))
            return rows, self._table is None or self._table.num_rows > count

    def _peek(self, count: int) -> None:
        """Run the query; keep its rows if they are few, else the first `count`, and stop it."""
        batches, kept, size, rows = self.batches(), list[pa.RecordBatch](), 0, 0
        with closing(batches):
            for batch in batches:
                kept.append(batch)
                size, rows = size + batch.get_total_buffer_size(), rows + batch.num_rows
                if rows > count and (rows > _KEPT_ROWS or size > _KEPT_BYTES):
                    self._head = pa.Table.from_batches(kept, self.schema).slice(0, count)
                    return
        self._table = pa.Table.from_batches(kept, self.schema)

    def _footer(self, rows: Sequence[object], more: bool) -> str:  # noqa: FBT001 - private
        if not more:
            return f"({counted(len(rows), 'row')})"
        whole = _MORE if self._table is None else f"{counted(self._table.num_rows, 'row')} in all"
        return f"(first {counted(len(rows), 'row')}; {whole})"


def _close(run: Run) -> None:
    close = getattr(run.batches, "close", None)
    if callable(close):
        close()
