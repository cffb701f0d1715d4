"""A small Flight SQL client for the command line: queries, their progress, and cancelling."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyarrow import flight

from flightllm.errors import (
    CancelledError,
    EngineUnavailableError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedError,
)
from flightllm.flight.messages import pack, sql_message

_NOISE = re.compile(r"\.? ?(Detail: |gRPC client debug context: |Client context: ).*", re.DOTALL)
"""What gRPC and Arrow add to a message."""
_KINDS: tuple[tuple[type[Exception], type[FlightLLMError]], ...] = (
    (flight.FlightUnauthenticatedError, UnauthenticatedError),
    (flight.FlightUnauthorizedError, PermissionDeniedError),
    (flight.FlightUnavailableError, EngineUnavailableError),
    (flight.FlightCancelledError, CancelledError),
    (pa.ArrowKeyError, NotFoundError),
    (pa.ArrowNotImplementedError, UnsupportedError),
    (pa.ArrowInvalid, InvalidInputError),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """Model calls of a running query: answered so far, and known to be needed."""

    done: int
    total: int


class Client:
    """A connection to one server. Usable from several threads; `progress` is about the query started last.

    `headers` go with every call: the token as `authorization`, settings as `x-flightllm-…`. Methods raise the error
    tree of `flightllm.errors`.
    """

    def __init__(self, uri: str, headers: Mapping[str, str] | None = None) -> None:
        pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self._options = flight.FlightCallOptions(headers=pairs)
        self._query_id: str | None = None
        self._uri = uri
        with _our_errors(uri):
            self._client = flight.FlightClient(uri)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._client.close()

    @property
    def query_id(self) -> str | None:
        """Return the id of the query started last, None before the first and after an update."""
        return self._query_id

    def query(self, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Start a query; return its schema and its rows as they come. An update runs at once and has no columns."""
        with _our_errors(self._uri):
            info = self._info(sql)
        self._query_id = info.app_metadata.decode() or None
        return info.schema, self._batches(info)

    def progress(self) -> Progress | None:
        """Return how far the query started last is, None while that is unknown."""
        if self._query_id is None:
            return None
        text = (
            "SELECT sum(calls + cache_hits) AS done, sum(prompts_expected) AS total FROM system.ai_calls "
            f"WHERE query_id = '{self._query_id}'"
        )
        try:
            with _our_errors(self._uri):
                rows = [row for batch in self._batches(self._info(text)) for row in batch.to_pylist()]
        except FlightLLMError:  # progress is a courtesy: the query itself reports what is wrong
            return None
        return Progress(int(rows[0]["done"]), int(rows[0]["total"])) if rows and rows[0]["total"] is not None else None

    def cancel(self, query_id: str) -> None:
        """Stop a running query, whoever started it.

        Raises:
            NotFoundError: no such query is running.
        """
        with _our_errors(self._uri):
            list(self._client.do_action(flight.Action("CancelQueryById", query_id.encode()), self._options))

    def _info(self, sql: str) -> flight.FlightInfo:
        command = pack(sql_message("CommandStatementQuery", query=sql))
        return self._client.get_flight_info(flight.FlightDescriptor.for_command(command), self._options)

    def _batches(self, info: flight.FlightInfo) -> Iterator[pa.RecordBatch]:
        with _our_errors(self._uri):
            for endpoint in info.endpoints:
                reader = self._client.do_get(endpoint.ticket, self._options)
                try:
                    for chunk in reader:
                        yield chunk.data
                finally:
                    reader.cancel()


@contextmanager
def _our_errors(uri: str) -> Iterator[None]:
    """Turn a Flight status into the error of ours that the server made it from."""
    try:
        yield
    except KeyboardInterrupt as exc:
        # pyarrow takes a status CANCELLED from the server for Ctrl-C.
        if not isinstance(exc.__context__, flight.FlightCancelledError):
            raise
        raise CancelledError("the query was cancelled") from exc
    except (flight.FlightError, pa.ArrowException) as exc:
        raise _ours(exc, uri) from exc


def _ours(error: Exception, uri: str) -> FlightLLMError:
    if isinstance(error, flight.FlightUnavailableError) and "failed to connect" in str(error):
        return EngineUnavailableError(f"no server answers at {uri}; start one with `flightllm serve`")
    kind = next((ours for status, ours in _KINDS if isinstance(error, status)), FlightLLMError)
    return kind(_NOISE.sub("", str(error)).strip())
