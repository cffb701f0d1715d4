"""Connections of dbt to a server, and the cost of what runs on them."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
from adbc_driver_flightsql import DatabaseOptions
from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState, Credentials
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

_LOG = AdapterLogger("FlightLLM")
_NOISE = re.compile(r"\.? ?(Detail: | \((?=[A-Z][A-Za-z]+; )).*", re.DOTALL)
_SKIPPED = re.compile(
    r"""\b[eE]'(?:\\.|[^'\\])*' | '[^']*' | "[^"]*" | (?<![\w$])\$((?:[^\W\d]\w*)?)\$.*?\$\1\$ | --[^\n]* | /\*""",
    re.DOTALL | re.VERBOSE,
)
"""Texts, names and comments, in which a semicolon ends no statement. Of a comment `/*`, the begin."""
_NESTED = re.compile(r"/\*|\*/")
_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.date32(): "date",
}
_HERE = ("localhost", "127.0.0.1", "::1")
_COST = """SELECT sum(calls), sum(cache_hits), sum(prompt_tokens + completion_tokens), sum(cost) FROM system.queries
WHERE session_id = ?"""


@dataclass
class FlightLLMCredentials(Credentials):
    """The part of a profile that names the server and the user."""

    host: str = "127.0.0.1"
    port: int = 31337
    database: str = "flightllm"
    schema: str = "public"
    user: str | None = None
    password: str | None = None
    token: str | None = None
    tls: bool | None = None
    tls_ca: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    _ALIASES: ClassVar = {"username": "user", "pass": "password", "catalog": "database"}

    @property
    def type(self) -> str:
        """Return the adapter's name."""
        return "flightllm"

    @property
    def unique_field(self) -> str:
        """Return the name of the server."""
        return self.host

    @property
    def uri(self) -> str:
        """Return the server's address. TLS is off by default only for this machine."""
        secure = self.tls if self.tls is not None else bool(self.tls_ca) or self.host not in _HERE
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'grpc+tls' if secure else 'grpc'}://{host}:{self.port}"

    def _connection_keys(self) -> tuple[str, ...]:
        return ("host", "port", "database", "schema", "user", "tls", "tls_ca", "settings")

    def options(self) -> dict[str, str]:
        """Return the options of ADBC: the login, the trusted authority, and settings."""
        found: dict[str, str] = {}
        if self.token:
            found[DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Bearer {self.token}"
        elif self.user:
            found |= {"username": self.user, "password": self.password or ""}
        if self.tls_ca:
            found[DatabaseOptions.TLS_ROOT_CERTS.value] = Path(self.tls_ca).read_text(encoding="ascii")
        header = f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-flightllm-"
        return found | {header + name: str(value) for name, value in self.settings.items()}


@dataclass
class Cost:
    """The cost of statements: calls asked of a model, answers from the cache, tokens, and a price if it is known."""

    asked: int = 0
    cached: int = 0
    tokens: int = 0
    price: float | None = None

    def __add__(self, other: "Cost") -> "Cost":
        prices = [price for price in (self.price, other.price) if price is not None]
        price = sum(prices) if prices else None
        return Cost(self.asked + other.asked, self.cached + other.cached, self.tokens + other.tokens, price)

    def __bool__(self) -> bool:
        return bool(self.asked or self.cached)

    def __str__(self) -> str:
        calls = self.asked + self.cached
        shown = "1 call" if calls == 1 else f"{calls:,} calls"
        parts = [f"{shown} ({self.cached:,} from the cache)", f"{self.tokens:,} tokens"]
        if self.price is not None:
            parts.append(f"${self.price:,.6f}".rstrip("0").rstrip("."))
        return ", ".join(parts)


@dataclass
class Response(AdapterResponse):
    """A response for `run_results.json`. Its cost is filled in at the end of the node."""

    calls: int = 0
    cached: int = 0
    tokens: int = 0
    price: float | None = None

    def add(self, cost: Cost) -> None:
        """Note the cost of the node."""
        self._message = f"{self}, {cost}"
        self.calls, self.cached, self.tokens, self.price = cost.asked, cost.cached, cost.tokens, cost.price


@dataclass
class Handle:
    """A connection of ADBC, which is one session of the server. dbt opens one for each node."""

    adbc: adbc.Connection
    session: str
    """The session's id on the server."""
    responses: list[Response] = field(default_factory=list)
    """Those of statements whose cost is not known yet."""
    cost: Cost = field(default_factory=Cost)
    """The cost of the statements before them."""

    def cursor(self) -> Any:
        """Return a cursor."""
        return self.adbc.cursor()

    def close(self) -> None:
        """Close the connection."""
        self.adbc.close()

    def rollback(self) -> None:
        """Do nothing: each statement takes effect by itself."""


class FlightLLMConnectionManager(SQLConnectionManager):
    """Opens a connection for each thread, and adds up the cost of each node's statements."""

    TYPE = "flightllm"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run = Cost()

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Connect, unless the connection is open.

        Raises:
            FailedToConnectError: no server answers, or it does not let the user in.
        """
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials: Any = connection.credentials
        try:
            connection.handle = _connected(credentials)
        except (adbc.Error, OSError) as error:
            connection.state, connection.handle = ConnectionState.FAIL, None
            advice = "see host, port, tls and the login of the profile"
            raise FailedToConnectError(
                f"cannot use the server at {credentials.uri}: {_plain(error)}; {advice}"
            ) from error
        connection.state = ConnectionState.OPEN
        return connection

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Raise dbt's errors with the server's message."""
        del sql
        try:
            yield
        except adbc.Error as error:
            raise DbtDatabaseError(_plain(error)) from error
        except DbtRuntimeError:
            raise
        except Exception as error:
            raise DbtRuntimeError(str(error)) from error

    def cancel(self, connection: Connection) -> None:
        """Cancel the statement of a connection."""
        if connection.handle is not None:
            connection.handle.adbc.adbc_cancel()

    def add_begin_query(self) -> Any:
        """Send nothing: there are no transactions."""

    def add_commit_query(self) -> Any:
        """Send nothing: there are no transactions."""

    def add_query(self, sql: str, auto_begin: bool = True, bindings: Any = None, *more: Any, **named: Any) -> Any:
        """Send the statements of a text one after the other, and return the cursor of the last."""
        *before, last = [sql] if bindings is not None else statements(sql)
        for one in before:
            _, cursor = super().add_query(one, auto_begin, None, *more, **named)
            cursor.close()
        return super().add_query(last, auto_begin, bindings, *more, **named)

    @classmethod
    def get_response(cls, cursor: Any) -> Response:
        """Return how many rows a statement changed."""
        rows = cursor.rowcount
        changed = f"OK {rows:,} {'row' if rows == 1 else 'rows'}"
        return Response(_message=changed if rows > 0 else "OK", rows_affected=rows)

    def execute(
        self,
        sql: str,
        auto_begin: bool = False,
        fetch: bool = False,
        limit: int | None = None,
    ) -> Any:
        """Run a statement."""
        response, table = super().execute(sql, auto_begin, fetch, limit)
        self.get_thread_connection().handle.responses.append(response)
        return response, table

    def settle(self) -> None:
        """Ask for the cost of the thread's node so far, and note it in the responses of its statements.

        A cost that the server cannot tell is a warning, because the node itself has done its work.
        """
        connection = self.get_if_exists()
        if connection is None or connection.state != ConnectionState.OPEN or not connection.handle.responses:
            return
        handle = connection.handle
        responses, handle.responses = handle.responses, []
        try:
            handle.cost = _cost(handle)
        except (adbc.Error, OSError) as error:
            _LOG.warning(f"the cost of {connection.name} is not known: {_plain(error)}")
            return
        for response in responses if handle.cost else ():
            response.add(handle.cost)

    def release(self) -> None:
        """Close the thread's connection, and add its cost to that of the run."""
        connection = self.get_if_exists()
        if connection is not None and connection.state == ConnectionState.OPEN:
            self.settle()
            with self.lock:
                self._run += connection.handle.cost
        super().release()

    def cleanup_all(self) -> None:
        """Close all connections, and log the cost of the run."""
        self.release()
        super().cleanup_all()
        if self._run:
            _LOG.info(f"This run asked for {self._run}")
        self._run = Cost()

    @classmethod
    def get_result_from_cursor(cls, cursor: Any, limit: int | None) -> Any:
        """Return the rows of a result, up to `limit`. Times keep their microseconds."""
        from dbt_common.clients.agate_helper import table_from_data_flat

        if not cursor.description:
            return table_from_data_flat([], [])
        table = cursor.fetch_arrow_table()
        if limit is not None:
            table = table.slice(0, limit)
        fields = [field.with_type(_whole(field.type)) for field in table.schema]
        columns = [column.to_pylist() for column in table.cast(pa.schema(fields), safe=False).columns]
        rows = cls.process_results(table.column_names, zip(*columns, strict=True))
        return table_from_data_flat(list(rows), table.column_names)

    @classmethod
    def data_type_code_to_name(cls, type_code: Any) -> str:
        """Return SQL's name of a column's type in a result, as contracts compare it."""
        return _name(type_code)


def statements(sql: str) -> list[str]:
    """Return the statements of a text, each with the comments before it. The server takes one at a time."""
    hidden, at = "", 0
    while found := _SKIPPED.search(sql, at):
        end = _comment_end(sql, found.start()) if found.group() == "/*" else found.end()
        filler = " " if found.group()[:2] in {"--", "/*"} else "x"
        hidden += sql[at : found.start()] + filler * (end - found.start())
        at = end
    hidden += sql[at:]
    ends = [found.start() for found in re.finditer(";", hidden)]
    places = zip([0, *(end + 1 for end in ends)], [*ends, len(sql)], strict=True)
    return [sql[start:end] for start, end in places if hidden[start:end].strip()] or [sql]


def _comment_end(sql: str, start: int) -> int:
    """Return the end of a comment, which can hold others."""
    depth = 0
    for found in _NESTED.finditer(sql, start):
        depth += 1 if found.group() == "/*" else -1
        if not depth:
            return found.end()
    return len(sql)


def _connected(credentials: FlightLLMCredentials) -> Handle:
    connection = adbc.connect(credentials.uri, db_kwargs=credentials.options(), autocommit=True)
    try:
        first = f"SELECT '{uuid.uuid4().hex}'"  # no other session sends this text
        with connection.cursor() as cursor:  # this needs a server, and a login that it accepts
            cursor.execute(first)
            cursor.fetchall()
            cursor.execute("SELECT session_id FROM system.queries WHERE sql = ?", (first,))
            ((session,),) = cursor.fetchall()
    except BaseException:
        connection.close()
        raise
    return Handle(connection, session)


def _cost(handle: Handle) -> Cost:
    """Return the cost of the session's statements."""
    with handle.cursor() as cursor:
        cursor.execute(_COST, (handle.session,))
        asked, cached, tokens, price = cursor.fetchone()
    return Cost(asked or 0, cached or 0, tokens or 0, price)


def _name(kind: pa.DataType) -> str:
    """Return SQL's name of a type. Precisions are no part of a contract."""
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    if pa.types.is_list(kind):
        return f"{_name(kind.value_type)}[]"
    shown = {pa.types.is_string: "varchar", pa.types.is_large_string: "varchar", pa.types.is_string_view: "varchar"}
    shown |= {pa.types.is_decimal: "numeric", pa.types.is_time: "time", pa.types.is_binary: "bytea"}
    return next((name for test, name in shown.items() if test(kind)), str(kind))


def _whole(kind: pa.DataType) -> pa.DataType:
    """Return a type for Python, whose times have microseconds."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.time64("us") if pa.types.is_time(kind) else kind


def _plain(error: BaseException) -> str:
    """Return the server's message without the text that gRPC and ADBC add."""
    return _NOISE.sub("", str(error)).split("[FlightSQL]")[-1].strip()
