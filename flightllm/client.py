"""A small Flight SQL client for the command line and agents: queries, their progress, and cancelling."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from flightllm.common.amounts import counted, money
from flightllm.common.flight_address import Tls, checked_uri, plain
from flightllm.errors import (
    CancelledError,
    EngineUnavailableError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    StatementTimeoutError,
    UnauthenticatedError,
    UnsupportedError,
)
from flightllm.flight.messages import message_class, pack, sql_message, unpack_as

_BROKEN = ("Socket closed", "Connection reset", "Broken pipe", "GOAWAY")
"""How gRPC describes a connection whose other end died."""


@dataclass(frozen=True, slots=True)
class OptionNames:
    """The names of a caller's options, for error messages; by default those of the command line."""

    user: str = "--user"
    token: str = "--token"  # noqa: S105 - the option's name
    tls_ca: str = "--tls-ca"
    uri: str = "--uri"

    @property
    def no_tls(self) -> str:
        """Return what is wrong with a certificate, and what to do."""
        return (
            "it has no TLS certificate that is trusted here: write grpc://HOST:PORT if it has no TLS, or add"
            f" {self.tls_ca}"
        )


IN_PYTHON = OptionNames("user= and password=", "token=", "tls_ca=", "the address")
"""The options of `flightllm.connect`."""
BOOKKEEPING = "/* flightllm client */ "
"""The prefix of the queries that this client adds by itself, so that lists of queries can leave them out."""
_KINDS: tuple[tuple[type[Exception], type[FlightLLMError]], ...] = (
    (flight.FlightUnauthenticatedError, UnauthenticatedError),
    (flight.FlightUnauthorizedError, PermissionDeniedError),
    (flight.FlightUnavailableError, EngineUnavailableError),
    (flight.FlightCancelledError, CancelledError),
    (flight.FlightTimedOutError, StatementTimeoutError),
    (pa.ArrowKeyError, NotFoundError),
    (pa.ArrowNotImplementedError, UnsupportedError),
    (pa.ArrowInvalid, InvalidInputError),
)


@dataclass(frozen=True, slots=True)
class Progress:
    """The work of one statement so far.

    `total` counts the prompts that are known to need an answer, and `done` those that are answered. `asked` calls went
    to a model, and `cached` answers came from the cache. `tokens` are those of prompts and answers. `cost` is None
    where the model has no price.
    """

    done: int
    total: int
    asked: int = 0
    cached: int = 0
    tokens: int = 0
    cost: float | None = None
    rows: int = 0
    failed_rows: int = 0
    seconds: float = 0.0
    status: str = ""
    warnings: tuple[str, ...] = ()
    """Notes on the result, for example about a promise that is not held."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Progress":
        """Return the progress in a server's answer; a server of another version can lack some values."""
        tokens = (values.get("prompt_tokens") or 0) + (values.get("completion_tokens") or 0)
        done, total = values.get("calls_done") or 0, values.get("calls_expected") or 0
        asked, cached = values.get("calls") or 0, values.get("cache_hits") or 0
        rows, failed, status = values.get("rows") or 0, values.get("failed_rows") or 0, values.get("status") or ""
        return cls(
            done,
            total,
            asked,
            cached,
            tokens,
            values.get("cost"),
            rows,
            failed,
            values.get("seconds") or 0.0,
            status,
            tuple(values.get("warnings") or ()),
        )

    def summary(self, rows: int) -> str:
        """Return a line about a statement's work; empty if it needed no model call.

        Example: `20 rows, 34 calls (30 asked, 4 from the cache), 12,345 tokens, $0.012, 3.2 s`
        """
        calls = self.asked + self.cached
        if not calls:
            return ""
        origin = f" ({self.asked:,} asked, {self.cached:,} from the cache)" if self.cached else ""
        parts = [counted(rows, "row"), f"{counted(calls, 'call')}{origin}", counted(self.tokens, "token")]
        if self.cost is not None:
            parts.append(money(self.cost))
        return ", ".join([*parts, f"{self.seconds:,.1f} s"])


class Client:
    """A connection to one server. Several threads can use it; `progress` describes the query that started last.

    Each call sends `headers`: the token as `authorization`, settings as `x-flightllm-…`. `login` is a user's name and
    password. A call ends after `timeout` seconds, if it has a value.

    Raises:
        FlightLLMError: from each method, of the class in `flightllm.errors` that the server raised.
        InvalidInputError: from the constructor, where `uri` is not of the form `grpc://HOST:PORT`.
    """

    def __init__(
        self,
        uri: str,
        headers: Mapping[str, str] | None = None,
        *,
        login: tuple[str, str] | None = None,
        tls: Tls | None = None,
        timeout: float | None = None,
        options: OptionNames = OptionNames(),
    ) -> None:
        self._names = options
        pairs = _pairs(headers or {})
        self._query_id: str | None = None
        self._asking: str | None = None
        """The text of a statement whose id is not known yet."""
        self._changing: str | None = None
        """The text of the last statement, if it has no id; see `_change_id`."""
        self._change: str | None = None
        """The id that was found for this text."""
        self._affected: int | None = None
        self._has_prices = False
        self._uri = checked_uri(uri)
        self._login = login
        self._sends_token = "authorization" in {name.lower() for name in headers or {}}
        with self._our_errors():
            self._client = flight.FlightClient(uri, **_tls_arguments(tls or Tls()))
            try:
                if login is not None:
                    pairs.append(self._logged_in(*login))
            except BaseException:
                self._client.close()
                raise
        self._pairs = pairs
        self._timeout = timeout
        self._options = flight.FlightCallOptions(timeout=timeout, headers=pairs)

    def beside(self, headers: Mapping[str, str]) -> "Client":
        """Return a client of the same connection, login and session, which follows a statement of its own.

        It sends `headers` too, in place of those with the same names. Close only this client, not the new one.
        """
        other, added = copy(self), _pairs(headers)
        names = {name for name, _ in added}
        pairs = [*(pair for pair in self._pairs if pair[0] not in names), *added]
        nothing = dict.fromkeys(("_query_id", "_asking", "_changing", "_change", "_affected"))
        vars(other).update(
            nothing, _pairs=pairs, _options=flight.FlightCallOptions(timeout=self._timeout, headers=pairs)
        )
        return other

    def _logged_in(self, user: str, password: str) -> tuple[bytes, bytes]:
        """Log in; return the header that identifies the user in all further calls."""
        try:
            header: tuple[bytes, bytes] = self._client.authenticate_basic_token(user, password)
        except (flight.FlightUnauthenticatedError, flight.FlightUnavailableError):
            raise
        except (flight.FlightError, pa.ArrowException) as error:  # the handshake ended early
            raise EngineUnavailableError(
                f"cannot log in: no server answers at {self._uri}, or {self._names.no_tls}"
            ) from error
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
        """Return the id of the query that started last; None before the first query and after an update."""
        return self._query_id

    @property
    def affected(self) -> int | None:
        """Return how many rows the last update changed, or None if the statement does not count rows."""
        return self._affected

    def has_prices(self) -> bool:
        """Return whether any model of the server has a price; once one has, it is not asked again."""
        if not self._has_prices:
            text = "SELECT 1 FROM system.models WHERE price_input > 0 OR price_output > 0 LIMIT 1"
            self._has_prices = any(batch.num_rows for batch in self.query(f"{BOOKKEEPING}{text}")[1])
        return self._has_prices

    def query(self, sql: str, parameters: pa.RecordBatch | None = None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Start a query; return its schema and its rows as they arrive. An update runs at once, without columns.

        `parameters` has one row, with a column for each parameter.
        """
        self._query_id, self._change, self._asking, self._changing = None, None, sql, sql
        try:
            with self._our_errors():
                info = self._info(sql) if parameters is None else self._bound_info(sql, parameters)
        finally:
            self._asking = None
        self._query_id = info.app_metadata.decode() or None
        if self._query_id is not None:
            self._changing = None
        changes = not len(info.schema) and info.total_records >= 0
        self._affected = info.total_records if changes and _counts_rows(sql) else None
        return info.schema, self._batches(info)

    def append(self, table: Sequence[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Add rows to a table, in one step; return their number. `table` has the parts of the table's name.

        The columns of `schema` are matched by name.
        """
        return self._ingest(table, schema, batches, {"if_not_exist": 2, "if_exists": 2}, temporary=False)

    def put_temporary(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Make a temporary table of the session, in place of one with this name; return the number of its rows."""
        return self._ingest([name], schema, batches, {"if_not_exist": 1, "if_exists": 3}, temporary=True)

    def _ingest(
        self,
        table: Sequence[str],
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        options: Mapping[str, int],
        *,
        temporary: bool,
    ) -> int:
        """Upload rows; `options` are the numbers of TableNotExistOption and TableExistsOption."""
        *schemas, name = table
        command = sql_message(
            "CommandStatementIngest",
            table=name,
            temporary=temporary,
            table_definition_options=options,
            **({"schema": schemas[-1]} if schemas else {}),
        )
        self._query_id, self._changing = None, None
        with self._our_errors():
            about = flight.FlightDescriptor.for_command(pack(command))
            writer, reader = self._client.do_put(about, schema, self._options)
            with writer:
                for batch in batches:
                    writer.write_batch(batch)
                writer.done_writing()
                answer = reader.read()
        count = message_class("arrow.flight.protocol.sql.DoPutUpdateResult").FromString(answer.to_pybytes())
        self._affected = int(count.record_count)
        return self._affected

    def progress(self) -> Progress | None:
        """Return the progress of the statement that started last, or None where it is unknown.

        The server tells the id of a query, but not that of a change: this method looks for it in `system.queries`.
        """
        try:
            query_id = self._query_id or self._change
            if query_id is None:
                query_id = self._change = self._change_id()
            return None if query_id is None else self.progress_of(query_id)
        except FlightLLMError:  # the statement itself reports what is wrong
            return None

    def progress_of(self, query_id: str) -> Progress:
        """Return the work of a query so far.

        Raises:
            NotFoundError: the server does not know this query.
        """
        return Progress.read(json.loads(self._act("GetQueryProgress", query_id)))

    def reason(self) -> str | None:
        """Return why rows of the query that started last have no answer, if the server recorded that."""
        row = self._recorded("error", "queries", self._query_id) if self._query_id is not None else {}
        return row.get("error")

    def cancel(self, query_id: str) -> str:
        """Stop a query of any client; return its status, which is `done` or `failed` where it had already ended.

        Raises:
            NotFoundError: the server does not know this query.
        """
        self._act("CancelQueryById", query_id)
        # Read the status afterwards: where too many queries run, this query has to wait for a place.
        return str(self._recorded("status", "queries", query_id).get("status", "cancelled"))

    def cancel_batch(self, batch_id: str) -> None:
        """Stop a statement that waits for a batch endpoint; one that has ended stays as it is.

        Raises:
            NotFoundError: the user has no such statement.
        """
        self._act("CancelBatch", batch_id)

    def remove_batch(self, batch_id: str) -> None:
        """Remove a statement that waited for a batch endpoint and has ended, with its rows and prompts.

        Raises:
            NotFoundError: the user has no such statement.
            InvalidInputError: the statement has not ended.
        """
        self._act("RemoveBatch", batch_id)

    def stop(self) -> Progress | None:
        """Stop the statement that runs now, also a change of a table. Return what it used, or None where nothing runs.

        Call it from another thread than the one that waits for the statement.
        """
        query_id = self._query_id or (None if self._asking is None else self._change_id())
        if query_id is None:
            return None
        self.cancel(query_id)
        return self.progress_of(query_id)

    def _change_id(self) -> str | None:
        """Return the id of the last statement, where the server returned none or has not answered yet.

        Other clients can run the same text, and this client can have run it before. So this method sends a query of its
        own to learn its session's id, and takes the latest statement with this text in that session. While the client
        waits for an answer, the statement must be running.
        """
        if self._changing is None:
            return None
        literal = self._changing.strip().replace("'", "''")
        sent = self._info(f"{BOOKKEEPING}SELECT 1")
        list(self._batches(sent))
        own = sent.app_metadata.decode()
        running = "" if self._asking is None else "status = 'running' AND "
        text = (
            f"{BOOKKEEPING}SELECT query_id FROM system.queries WHERE {running}trim(sql) = '{literal}'"
            f" AND session_id IN (SELECT session_id FROM system.queries WHERE query_id = '{own}')"
            " ORDER BY started_at DESC LIMIT 1"
        )
        rows = [row for batch in self._batches(self._info(text)) for row in batch.to_pylist()]
        return str(rows[0]["query_id"]) if rows else None

    def drain(self) -> int:
        """Tell the server to finish its running queries and exit; return how many queries run."""
        return int(self._act("Drain") or b"0")

    def quarantine(self) -> list[dict[str, Any]]:
        """Return the statements that the server refuses because they were running when it died."""
        return list(json.loads(self._act("Quarantine") or b"[]"))

    def lift(self, name: str) -> None:
        """Let a refused statement run again.

        Raises:
            NotFoundError: no refused statement has this name.
        """
        self._act("LiftQuarantine", name)

    def _act(self, kind: str, body: str | bytes = b"") -> bytes:
        data = body.encode() if isinstance(body, str) else body
        with self._our_errors():
            results = list(self._client.do_action(flight.Action(kind, data), self._options))
        return results[0].body.to_pybytes() if results else b""

    def _recorded(self, columns: str, table: str, query_id: str) -> dict[str, Any]:
        """Return a query's row in a system table; an empty dictionary where the server does not return it.

        Errors are ignored here: the query itself reports what is wrong.
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

    def _bound_info(self, sql: str, parameters: pa.RecordBatch) -> flight.FlightInfo:
        """Plan a query with parameters, through a prepared statement that lives as long as this call."""
        request = pack(sql_message("ActionCreatePreparedStatementRequest", query=sql))
        made = self._act("CreatePreparedStatement", request)
        first = bytes(unpack_as("ActionCreatePreparedStatementResult", made).prepared_statement_handle)
        handles = [first]
        try:
            about = _prepared_query(first)
            writer, reader = self._client.do_put(about, parameters.schema, self._options)
            with writer:
                writer.write_batch(parameters)
                writer.done_writing()
                answer = reader.read()
            result = message_class("arrow.flight.protocol.sql.DoPutPreparedStatementResult")
            bound = bytes(result.FromString(answer.to_pybytes()).prepared_statement_handle)
            if bound not in (b"", first):
                handles.append(bound)
            return self._client.get_flight_info(_prepared_query(handles[-1]), self._options)
        finally:
            for handle in handles:
                closing = sql_message("ActionClosePreparedStatementRequest", prepared_statement_handle=handle)
                with suppress(FlightLLMError):
                    self._act("ClosePreparedStatement", pack(closing))

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
        """Raise the `FlightLLMError` that the server turned into a Flight status."""
        try:
            yield
        except KeyboardInterrupt as exc:
            # pyarrow raises KeyboardInterrupt both for Ctrl-C and for the status CANCELLED from the server.
            if not isinstance(exc.__context__, flight.FlightCancelledError):
                raise
            raise CancelledError(plain(str(exc.__context__))) from exc
        except (flight.FlightError, pa.ArrowException) as exc:
            raise self._ours(exc) from exc

    def _ours(self, error: Exception) -> FlightLLMError:
        text = str(error)
        if isinstance(error, flight.FlightUnauthenticatedError):
            if self._login is not None:
                return UnauthenticatedError(f"the server at {self._uri} does not accept this user and password")
            asks = f"asks who you are: give {self._names.user}, or"
            problem = "does not accept this token: give" if self._sends_token else asks
            return UnauthenticatedError(
                f"the server at {self._uri} {problem} a token with {self._names.token} or FLIGHTLLM_TOKEN"
            )
        if isinstance(error, flight.FlightUnavailableError):
            if "handshake failed" in text.lower():
                return EngineUnavailableError(f"the server at {self._uri}: {self._names.no_tls}")
            if "failed to connect" in text or "errors resolving" in text:
                return EngineUnavailableError(
                    f"no server answers at {self._uri}; start one with `flightllm serve`, or correct {self._names.uri}"
                )
            if any(sign in text for sign in _BROKEN):
                return EngineUnavailableError(
                    f"the connection to {self._uri} broke: the server's process ended; `flightllm serve` replaces it"
                    " if it runs it; try again, and if that fails, see `flightllm quarantine`"
                )
        kind = next((ours for status, ours in _KINDS if isinstance(error, status)), FlightLLMError)
        return kind(plain(text))


def _pairs(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _tls_arguments(tls: Tls) -> dict[str, Any]:
    given = {
        "tls_root_certs": tls.trusted,
        "cert_chain": tls.certificate,
        "private_key": tls.key,
        "override_hostname": tls.name,
        "disable_server_verification": None if tls.verify else True,
    }
    return {name: value for name, value in given.items() if value is not None}


def _prepared_query(handle: bytes) -> flight.FlightDescriptor:
    command = sql_message("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    return flight.FlightDescriptor.for_command(pack(command))


def _counts_rows(sql: str) -> bool:
    """Return whether a statement's result says how many rows changed; for other statements, the server sends 0."""
    from flightllm.sql.classify import classify  # slow to import
    from flightllm.sql.parsed_text import ParsedText

    try:
        return classify(ParsedText(sql)).counts_rows
    except FlightLLMError:  # a newer server can know a statement that this client does not
        return True
