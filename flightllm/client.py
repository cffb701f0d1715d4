"""A small Flight SQL client for the command line: queries, their progress, and cancelling."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from flightllm.common.flight_address import checked_uri, plain
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
from flightllm.sql.classify import classify

_NO_TLS = "it speaks no TLS that is trusted here: write grpc://HOST:PORT if it has none, or trust it by --tls-ca"
_BROKEN = ("Socket closed", "Connection reset", "Broken pipe", "GOAWAY")
"""What gRPC says of a connection whose other end died."""
BOOKKEEPING = "/* flightllm client */ "
"""Begins the queries that this client makes of its own accord, so that lists of queries can leave them out."""
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


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What a query that ended well lacks: rows without an answer of the model, and why where its record says so."""

    rows: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a statement that was cancelled took so far; `cost` in dollars, None where no price is known."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None


class Client:
    """A connection to one server. Usable from several threads; `progress` is about the query started last.

    `headers` go with every call: the token as `authorization`, settings as `x-flightllm-…`. `login` is a user's name
    and password; `trusted` are the certificates to trust, as PEM, in place of the system's. All of it raises the error
    tree of `flightllm.errors`, the constructor `InvalidInputError` where `uri` is not of the form `grpc://HOST:PORT`.
    """

    def __init__(
        self,
        uri: str,
        headers: Mapping[str, str] | None = None,
        *,
        login: tuple[str, str] | None = None,
        trusted: bytes | None = None,
    ) -> None:
        pairs = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self._query_id: str | None = None
        self._asking: str | None = None
        """The text of a statement whose id is not known yet."""
        self._affected: int | None = None
        self._uri = checked_uri(uri)
        self._login = login
        self._sends_token = "authorization" in {name.lower() for name in headers or {}}
        with self._our_errors():
            self._client = flight.FlightClient(uri, **({} if trusted is None else {"tls_root_certs": trusted}))
            if login is not None:
                pairs.append(self._logged_in(*login))
        self._options = flight.FlightCallOptions(headers=pairs)

    def _logged_in(self, user: str, password: str) -> tuple[bytes, bytes]:
        """Return the header that says who asks from now on."""
        try:
            header: tuple[bytes, bytes] = self._client.authenticate_basic_token(user, password)
        except (flight.FlightUnauthenticatedError, flight.FlightUnavailableError):
            raise
        except (flight.FlightError, pa.ArrowException) as error:  # a handshake that ends early, for whatever reason
            raise EngineUnavailableError(f"cannot log in: no server answers at {self._uri}, or {_NO_TLS}") from error
        return header

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

    @property
    def affected(self) -> int | None:
        """Return how many rows the update started last changed, None where it does not count any."""
        return self._affected

    def query(self, sql: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Start a query; return its schema and its rows as they come. An update runs at once and has no columns."""
        self._query_id, self._asking = None, sql
        try:
            with self._our_errors():
                info = self._info(sql)
        finally:
            self._asking = None
        self._query_id = info.app_metadata.decode() or None
        self._affected = info.total_records if info.total_records >= 0 and _counts_rows(sql) else None
        return info.schema, self._batches(info)

    def progress(self) -> Progress | None:
        """Return how far the query started last is, None while that is unknown."""
        if self._query_id is None:
            return None
        counts = "sum(calls + cache_hits) AS done, sum(prompts_expected) AS total"
        row = self._recorded(counts, "ai_calls", self._query_id)
        return Progress(int(row["done"]), int(row["total"])) if row.get("total") is not None else None

    def shortfall(self) -> Shortfall:
        """Return what the query started last lacks; nothing while that is unknown."""
        row = self._recorded("failed_rows, error", "queries", self._query_id) if self._query_id is not None else {}
        return Shortfall(int(row.get("failed_rows") or 0), row.get("error"))

    def cancel(self, query_id: str) -> str:
        """Stop a query, whoever started it; return its status, which is `done` or `failed` where it had ended already.

        Raises:
            NotFoundError: the server knows no such query.
        """
        self._act("CancelQueryById", query_id)
        # Asked afterwards, because a query has to wait where too many run already.
        return str(self._recorded("status", "queries", query_id).get("status", "cancelled"))

    def stop(self) -> Spent | None:
        """Stop the statement that runs now, a change of a table too, and return what it took; None where none does.

        To be called from another thread than the one that waits for it.
        """
        query_id = self._query_id or self._running_id()
        if query_id is None:
            return None
        self.cancel(query_id)
        row = self._recorded("calls, prompt_tokens, completion_tokens, cost", "queries", query_id)
        calls, prompts, answers = (int(row.get(n) or 0) for n in ("calls", "prompt_tokens", "completion_tokens"))
        return Spent(calls, prompts, answers, row.get("cost"))

    def _running_id(self) -> str | None:
        """Return the id of the statement that was sent and has not answered yet, the latest of its text.

        Other clients can run the same text: the session is that of a query which this client sends now.
        """
        if self._asking is None:
            return None
        literal = self._asking.strip().replace("'", "''")
        sent = self._info(f"{BOOKKEEPING}SELECT 1")
        list(self._batches(sent))
        own = sent.app_metadata.decode()
        text = (
            f"{BOOKKEEPING}SELECT query_id FROM system.queries WHERE status = 'running' AND trim(sql) = '{literal}'"
            f" AND session_id IN (SELECT session_id FROM system.queries WHERE query_id = '{own}')"
            " ORDER BY started_at DESC LIMIT 1"
        )
        rows = [row for batch in self._batches(self._info(text)) for row in batch.to_pylist()]
        return str(rows[0]["query_id"]) if rows else None

    def drain(self) -> int:
        """Have the server finish what runs and end; return how many queries run."""
        return int(self._act("Drain") or b"0")

    def quarantine(self) -> list[dict[str, Any]]:
        """Return the statements that are refused because they were running when the server died."""
        return list(json.loads(self._act("Quarantine") or b"[]"))

    def lift(self, name: str) -> None:
        """Let a refused statement run again.

        Raises:
            NotFoundError: none has this name.
        """
        self._act("LiftQuarantine", name)

    def _act(self, kind: str, body: str = "") -> bytes:
        with self._our_errors():
            results = list(self._client.do_action(flight.Action(kind, body.encode()), self._options))
        return results[0].body.to_pybytes() if results else b""

    def _recorded(self, columns: str, table: str, query_id: str) -> dict[str, Any]:
        """Return what a system table says of a query; nothing where the server does not tell.

        That is a courtesy: what is wrong is reported by the query itself.
        """
        literal = query_id.replace("'", "''")
        text = f"{BOOKKEEPING}SELECT {columns} FROM system.{table} WHERE query_id = '{literal}'"
        try:
            with self._our_errors():
                rows = [row for batch in self._batches(self._info(text)) for row in batch.to_pylist()]
        except FlightLLMError:
            return {}
        return dict(rows[0]) if rows else {}

    def _info(self, sql: str) -> flight.FlightInfo:
        command = pack(sql_message("CommandStatementQuery", query=sql))
        return self._client.get_flight_info(flight.FlightDescriptor.for_command(command), self._options)

    def _batches(self, info: flight.FlightInfo) -> Iterator[pa.RecordBatch]:
        with self._our_errors():
            for endpoint in info.endpoints:
                reader = self._client.do_get(endpoint.ticket, self._options)
                try:
                    for chunk in reader:
                        yield chunk.data
                finally:
                    reader.cancel()

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        """Turn a Flight status into the error of ours that the server made it from."""
        try:
            yield
        except KeyboardInterrupt as exc:
            # pyarrow takes a status CANCELLED from the server for Ctrl-C.
            if not isinstance(exc.__context__, flight.FlightCancelledError):
                raise
            raise CancelledError(plain(str(exc.__context__))) from exc
        except (flight.FlightError, pa.ArrowException) as exc:
            raise self._ours(exc) from exc

    def _ours(self, error: Exception) -> FlightLLMError:
        text = str(error)
        if isinstance(error, flight.FlightUnauthenticatedError):
            if self._login is not None:
                return UnauthenticatedError(f"the server at {self._uri} does not take this user and password")
            problem = "does not take this token: give" if self._sends_token else "asks who you are: give --user, or"
            return UnauthenticatedError(f"the server at {self._uri} {problem} a token with --token or FLIGHTLLM_TOKEN")
        if isinstance(error, flight.FlightUnavailableError):
            if "handshake failed" in text.lower():
                return EngineUnavailableError(f"the server at {self._uri}: {_NO_TLS}")
            if "failed to connect" in text or "errors resolving" in text:
                return EngineUnavailableError(
                    f"no server answers at {self._uri}; start one with `flightllm serve`, or correct --uri"
                )
            if any(sign in text for sign in _BROKEN):
                return EngineUnavailableError(
                    f"the connection to {self._uri} broke off: its process ended, and is replaced if `flightllm serve`"
                    " runs it; try again, and if that fails see `flightllm quarantine`"
                )
        kind = next((ours for status, ours in _KINDS if isinstance(error, status)), FlightLLMError)
        return kind(plain(text))


def _counts_rows(sql: str) -> bool:
    """Tell whether a statement that was run counts rows; others answer 0."""
    try:
        return classify(sql).counts_rows
    except FlightLLMError:  # a newer server may know it
        return True
