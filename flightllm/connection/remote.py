"""A session of a server, over Flight SQL."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from flightllm.client import Client, Progress
from flightllm.connection.backend import Change, Watch
from flightllm.connection.waiting import Look, batches_of, result_of
from flightllm.errors import FlightLLMError


class RemoteSession:
    """A session of a server. `open_client` opens a connection to the server, which is a session there."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # otherwise gRPC prints its own lines
        self._open_client = open_client
        self._client = open_client()
        self._lock = Lock()
        self._stops: dict[object, Callable[[], object]] = {}
        """The functions that stop the statements that run now."""

    def send(self, sql: str, parameters: pa.RecordBatch | None, watch: Watch) -> "_PlannedQuery | Change":
        """Plan a query, or run a change."""
        client = self._client.beside({})  # each statement has its own, so that several run side by side
        schema, batches = self._queried(client, sql, parameters, lambda: watch(client.progress))
        if client.query_id is not None:
            return _PlannedQuery(self, sql, parameters, schema, (client.query_id, batches))
        rows = pa.Table.from_batches(list(batches), schema) if len(schema) else None
        affected = rows.num_rows if rows is not None else client.affected
        return Change(affected, rows, client.progress)

    def query(self, sql: str, parameters: pa.RecordBatch | None) -> tuple[str, Iterator[pa.RecordBatch]]:
        """Plan a query again; return its id and its rows."""
        client = self._client.beside({})
        _, batches = self._queried(client, sql, parameters, lambda: None)
        return client.query_id or "", batches

    def _queried(
        self, client: Client, sql: str, parameters: pa.RecordBatch | None, look: Look
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        def stop() -> None:
            with suppress(FlightLLMError):
                client.stop()

        with self.stopped_by(stop):
            return result_of(lambda: client.query(sql, parameters), look, stop)

    @contextmanager
    def stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """Let `interrupt` call `stop` during the block."""
        key = object()
        with self._lock:
            self._stops[key] = stop
        try:
            yield
        finally:
            with self._lock:
                del self._stops[key]

    def progress(self, query_id: str) -> Progress | None:
        """Return the work of a query so far, or None where it is unknown."""
        with suppress(FlightLLMError):
            return self._client.progress_of(query_id)
        return None

    def cancel(self, query_id: str) -> None:
        """Stop a query, if it runs."""
        with suppress(FlightLLMError):
            self._client.cancel(query_id)

    def upload(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Make a temporary table of the session."""
        self._client.beside({}).put_temporary(name, rows.schema, rows)

    def interrupt(self) -> None:
        """Stop the statements that run."""
        with self._lock:
            stops = list(self._stops.values())
        for stop in stops:
            stop()

    def another(self) -> "RemoteSession":
        """Open another session of the same user."""
        return RemoteSession(self._open_client)

    def close(self) -> None:
        """Close the session."""
        self._client.close()


@dataclass(slots=True)
class _PlannedQuery:
    """A query that the server has planned; `_first` has the id and the rows of its first run."""

    _of: RemoteSession
    _sql: str
    _parameters: pa.RecordBatch | None
    schema: pa.Schema
    _first: tuple[str, Iterator[pa.RecordBatch]] | None
    is_free: bool = False
    """The server does not tell."""

    def run(self, watch: Watch) -> "_RunningQuery":
        """Start the query."""
        first, self._first = self._first, None
        query_id, batches = first or self._of.query(self._sql, self._parameters)
        return _RunningQuery(self._of, query_id, self._rows(query_id, batches, watch))

    def _rows(self, query_id: str, batches: Iterator[pa.RecordBatch], watch: Watch) -> Iterator[pa.RecordBatch]:
        session = self._of

        def stop() -> None:
            session.cancel(query_id)

        with session.stopped_by(stop):
            yield from batches_of(batches, lambda: watch(lambda: session.progress(query_id)), stop)


@dataclass(frozen=True, slots=True)
class _RunningQuery:
    _of: RemoteSession
    _query_id: str
    batches: Iterator[pa.RecordBatch]

    def used(self) -> Progress | None:
        """Return the work of the query so far."""
        return self._of.progress(self._query_id)
