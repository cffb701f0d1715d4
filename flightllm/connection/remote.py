"""A session of a server, over Flight SQL."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock

import pyarrow as pa

from flightllm.client import Client, Progress
from flightllm.connection.backend import Change, Watch
from flightllm.connection.waiting import batches_of, result_of
from flightllm.errors import FlightLLMError


class RemoteSession:
    """A session of a server. `open_client` opens a connection to the server, which is a session there."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # otherwise gRPC prints its own lines
        self._open_client = open_client
        self._client = open_client()
        self._lock = RLock()
        """One statement at a time is sent: the client knows the id of its last one."""

    def send(self, sql: str, parameters: pa.RecordBatch | None, watch: Watch) -> "_PlannedQuery | Change":
        """Plan a query, or run a change."""
        client = self._client
        with self._lock:
            schema, batches = result_of(
                lambda: client.query(sql, parameters), lambda: watch(client.progress), self.interrupt
            )
            if client.query_id is not None:
                return _PlannedQuery(self, sql, parameters, schema, (client.query_id, batches))
            rows = pa.Table.from_batches(list(batches), schema) if len(schema) else None
            affected = rows.num_rows if rows is not None else client.affected
            return Change(affected, rows, client.progress())

    def query(self, sql: str, parameters: pa.RecordBatch | None) -> tuple[str, Iterator[pa.RecordBatch]]:
        """Plan a query again; return its id and its rows."""
        with self._lock:
            _, batches = result_of(lambda: self._client.query(sql, parameters), lambda: None, self.interrupt)
            return self._client.query_id or "", batches

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
        with self._lock:
            self._client.put_temporary(name, rows.schema, rows)

    def interrupt(self) -> None:
        """Stop the statement that was sent last, if it runs."""
        with suppress(FlightLLMError):
            self._client.stop()

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

    def run(self, watch: Watch) -> "_RunningQuery":
        """Start the query."""
        first, self._first = self._first, None
        query_id, batches = first or self._of.query(self._sql, self._parameters)
        session = self._of
        rows = batches_of(batches, lambda: watch(lambda: session.progress(query_id)), lambda: session.cancel(query_id))
        return _RunningQuery(session, query_id, rows)


@dataclass(frozen=True, slots=True)
class _RunningQuery:
    _of: RemoteSession
    _query_id: str
    batches: Iterator[pa.RecordBatch]

    def used(self) -> Progress | None:
        """Return the work of the query so far."""
        return self._of.progress(self._query_id)
