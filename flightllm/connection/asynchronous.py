"""Connections for programs on asyncio: each wait takes place in a thread of its own.

A task that is cancelled stops its statement. The names and results are those of `Connection` and `Result`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import pyarrow as pa

from flightllm.common.stopping import stopped_if
from flightllm.connection.connect import Options, Target, connect
from flightllm.connection.connection import Connection, Variables, callers_variables
from flightllm.connection.cost import Cost
from flightllm.connection.parameters import Parameters
from flightllm.connection.result import Plan, Result
from flightllm.connection.waiting import in_thread

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from polars import DataFrame as PolarsFrame

_T = TypeVar("_T")


async def connect_async(target: Target = None, **options: Unpack[Options]) -> "AsyncConnection":
    """Open a database in this process, or connect to a server; see `flightllm.connect`.

    Raises:
        FlightLLMError: see `flightllm.connect`.
    """
    return AsyncConnection(await _waited(lambda: connect(target, **options), discard=Connection.close))


class AsyncConnection:
    """A connection for asyncio. Several tasks can use it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def sql(self, query: str, params: Parameters | None = None) -> Awaitable["AsyncResult"]:
        """Plan a query, or run a change; see `Connection.sql`."""
        return self._sent(query, params, callers_variables(), run=False)

    def execute(self, query: str, params: Parameters | None = None) -> Awaitable["AsyncResult"]:
        """Run a statement, and keep its rows; see `Connection.execute`."""
        return self._sent(query, params, callers_variables(), run=True)

    def _sent(
        self, query: str, params: Parameters | None, variables: Variables, *, run: bool
    ) -> Coroutine[Any, Any, "AsyncResult"]:
        def work() -> AsyncResult:
            result = self._connection.sent(query, params, variables)
            if run:
                result.arrow()
            return AsyncResult(result)

        return _waited(work)

    async def register(self, name: str, frame: Any) -> Self:
        """Make a frame a temporary table; see `Connection.register`."""
        await _waited(lambda: self._connection.register(name, frame))
        return self

    async def unregister(self, name: str) -> Self:
        """Remove the table of a registered frame; see `Connection.unregister`."""
        await _waited(lambda: self._connection.unregister(name))
        return self

    async def cursor(self) -> "AsyncConnection":
        """Open another session; see `Connection.cursor`."""
        return AsyncConnection(await _waited(self._connection.cursor, discard=Connection.close))

    async def interrupt(self) -> None:
        """Stop the running statements of this session."""
        await _waited(self._connection.interrupt)

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        await _waited(self._connection.close)

    @property
    def closed(self) -> bool:
        """Return whether the connection is closed."""
        return self._connection.closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncResult:
    """The result of one statement, for asyncio; see `Result`."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @property
    def schema(self) -> pa.Schema:
        """Return the columns with their types; the query does not run for it."""
        return self._result.schema

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns; the query does not run for it."""
        return self._result.columns

    @property
    def affected(self) -> int | None:
        """Return the number of rows that a change changed; None where the statement does not count rows."""
        return self._result.affected

    async def arrow(self) -> pa.Table:
        """Return the rows as a table of Arrow."""
        return await _waited(self._result.arrow)

    async def df(self, **options: Any) -> "PandasFrame":
        """Return the rows as a frame of pandas; see `Result.df`."""
        return await _waited(lambda: self._result.df(**options))

    async def pl(self) -> "PolarsFrame":
        """Return the rows as a frame of polars."""
        return await _waited(self._result.pl)

    async def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last one."""
        return await _waited(self._result.fetchone)

    async def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """Return at most `size` next rows."""
        return await _waited(lambda: self._result.fetchmany(size))

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows that were not fetched yet."""
        return await _waited(self._result.fetchall)

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield the rows as they come; see `Result.batches`."""
        batches = self._result.batches()
        try:
            while (batch := await _waited(lambda: next(batches, None))) is not None:
                yield batch
        finally:
            with suppress(ValueError):  # a cancelled task's thread still ends the statement
                batches.close()

    async def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        """Yield all rows as tuples."""
        await _waited(self._result.arrow)
        for row in self._result:
            yield row

    async def explain(self, *, analyze: bool = False) -> Plan:
        """Return the plan; see `Result.explain`."""
        return await _waited(lambda: self._result.explain(analyze=analyze))

    async def cost(self) -> Cost:
        """Return what the statement has spent, or will spend by prediction."""
        return await _waited(self._result.cost)

    def __repr__(self) -> str:
        return f"<AsyncResult of {self._result.sql!r}>"


async def _waited(work: Callable[[], _T], discard: Callable[[_T], object] = lambda _: None) -> _T:
    """Return the result of `work`, which runs in a thread; cancelling the task stops it.

    `discard` gets a result that comes after that.
    """
    left = Event()

    def run() -> _T:
        with stopped_if(left.is_set):
            return work()

    done = in_thread(run)
    waited = asyncio.wrap_future(done)
    try:
        return await asyncio.shield(waited)
    except asyncio.CancelledError:
        left.set()
        waited.add_done_callback(lambda one: one.cancelled() or one.exception())  # else asyncio reports it as lost
        done.add_done_callback(lambda one: None if one.exception() else discard(one.result()))
        raise
