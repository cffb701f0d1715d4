"""What the protocol layer asks of a database and its sessions: the parts it uses, as structural types."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from flightllm.catalog import IngestMode
from flightllm.common.limits import TimeLimit
from flightllm.common.principal import Principal
from flightllm.errors import FlightLLMError
from flightllm.observe.query_record import Stop
from flightllm.observe.spans import Spans
from flightllm.sql.keys import Keys


class QueryRecord(Protocol):
    """A started query."""

    @property
    def query_id(self) -> str:
        """Return the id in logs and `system.queries`."""

    @property
    def user(self) -> str:
        """Return the name of who started it."""

    @property
    def stopped(self) -> bool:
        """Return whether somebody asked the query to stop."""

    @property
    def reason(self) -> FlightLLMError | None:
        """Return why it was stopped, where that makes it a failure."""

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Ask the query to stop, as a failure where there is a reason; returns at once."""

    def queued(self, seconds: float) -> None:
        """Say that the query waited for its turn."""

    def progress(self) -> Mapping[str, Any]:
        """Return how far it is, as values of JSON.

        `status` is planned, running, done, failed or cancelled; `calls_done` and `calls_expected` count model calls.
        """


class QueryResult(Protocol):
    """A lazy result: the query runs as `batches` is pulled."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of every batch."""

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the one iterator over the rows; closing it stops the query."""

    @property
    def query(self) -> QueryRecord:
        """Return the query's record."""


class Description(Protocol):
    """What planning alone says about a statement."""

    @property
    def schema(self) -> pa.Schema:
        """Return the result's schema, empty for an update."""

    @property
    def is_update(self) -> bool:
        """Return whether it is DDL, DML or SET."""

    @property
    def parameters(self) -> pa.Schema:
        """Return one field per parameter, in order."""

    @property
    def plan(self) -> "Plan | None":
        """Return the plan to execute the statement by, if there is one."""


class Plan(Protocol):
    """A planned query, kept for one execution."""

    def drop(self) -> None:
        """Give it up. Idempotent."""


class Returned(Protocol):
    """What a change with RETURNING did."""

    @property
    def affected(self) -> int:
        """Return how many rows it changed."""

    @property
    def rows(self) -> pa.Table:
        """Return the rows that it returns."""


class Session(Protocol):
    """One client's state and statements."""

    @property
    def principal(self) -> Principal:
        """Return whose session it is."""

    @property
    def rights(self) -> object:
        """Return something that is unequal once its user may see or do something else."""

    @property
    def id(self) -> str:
        """Return its id in `system.sessions`; no secret."""

    def time_limit(self, settings: Mapping[str, str]) -> TimeLimit:
        """Return how long a statement may run under the session's settings and these."""

    def is_update(self, sql: str, settings: Mapping[str, str] = ...) -> bool:
        """Return whether `sql` is DDL, DML or SET, from its text alone."""

    def returns_rows(self, sql: str, settings: Mapping[str, str] = ...) -> bool:
        """Return whether `sql` changes something and returns rows, from its text alone."""

    def describe(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = ...
    ) -> Description:
        """Plan `sql` without running anything, with a row of parameters if there is one."""

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = ...
    ) -> QueryResult:
        """Start a query with at most one row of parameters; a batch without rows gives no rows."""

    def execute_planned(self, plan: Any, sql: str, settings: Mapping[str, str] = ...) -> QueryResult | None:
        """Start a query by the plan of its description; None where something has changed that it depends on."""

    def describe_plan(self, plan: bytes) -> Description:
        """Plan a serialized Substrait plan without running anything."""

    def execute_plan(self, plan: bytes, settings: Mapping[str, str] = ...) -> QueryResult:
        """Start a serialized Substrait plan."""

    def update(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = ...,
        *,
        cancelled: Stop | None = None,
    ) -> int:
        """Run DDL, DML or SET once, or once per parameter row; return the rows affected or -1."""

    def update_returning(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = ...,
        *,
        cancelled: Stop | None = None,
    ) -> Returned:
        """Run a change with RETURNING once, or once per parameter row; return the rows that it returns."""

    def ingest(
        self,
        table: str,
        reader: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: IngestMode,
        *,
        db_schema: str = ...,
        temporary: bool = False,
        cancelled: Stop | None = None,
    ) -> int:
        """Write batches to a table; return the rows written."""

    def table_exists(self, table: str, db_schema: str, *, temporary: bool) -> bool:
        """Return whether an upload in place of a table would find one."""

    @property
    def catalog(self) -> "Catalog":
        """Return the catalog as its user sees it now, with the session's temporary tables."""

    def begin(self) -> bytes:
        """Begin a transaction and return its id."""

    def check_transaction(self, transaction: bytes) -> None:
        """Raise `NotFoundError` where there is no such transaction."""

    def end(self, transaction: bytes, *, commit: bool) -> None:
        """End a transaction; raises `UnsupportedError` where it cannot be undone."""

    def set_option(self, key: str, value: str) -> None:
        """Change a setting; raises `InvalidInputError` for an unknown key or value."""

    def reset_option(self, key: str) -> None:
        """Put a setting back to its default; raises `InvalidInputError` for an unknown key."""

    def get_options(self) -> Mapping[str, str]:
        """Return every setting and its value."""

    def close(self) -> None:
        """End the session."""


class Queries(Protocol):
    """The queries there were lately."""

    @property
    def spans(self) -> Spans:
        """Return where traces begin."""

    def get(self, query_id: str) -> QueryRecord:
        """Return a query's record; raises `NotFoundError` where there is none."""


class Refused(Protocol):
    """A statement that was running when the server died."""

    @property
    def name(self) -> str:
        """Return what an administrator calls it."""

    @property
    def seconds(self) -> float:
        """Return how long it is still refused."""

    @property
    def query_id(self) -> str:
        """Return the id of the query, empty where it was still being planned."""

    @property
    def text(self) -> str:
        """Return the beginning of its text."""

    @property
    def user(self) -> str:
        """Return whose it is, empty for admins."""


class Quarantine(Protocol):
    """The statements that are refused for a while."""

    def current(self) -> Iterable[Refused]:
        """Return them."""

    def lift(self, name: str) -> None:
        """Let go of one; raises `NotFoundError` where none has this name."""


class TableName(Protocol):
    """A table's exact schema and name."""

    @property
    def schema(self) -> str:
        """Return the database schema."""

    @property
    def name(self) -> str:
        """Return the name in it."""


class TableInfo(Protocol):
    """One table or view of the catalog."""

    @property
    def name(self) -> TableName:
        """Return its full name."""

    @property
    def type(self) -> str:
        """Return `BASE TABLE`, `VIEW` or `SYSTEM TABLE`."""

    @property
    def schema(self) -> pa.Schema:
        """Return its columns."""

    @property
    def keys(self) -> Keys:
        """Return the keys that were declared for it."""


class Catalog(Protocol):
    """The tables all sessions share."""

    def schemas(self) -> Iterable[str]:
        """Return the names of the database schemas."""

    def tables(self) -> Iterable[TableInfo]:
        """Return every table."""


class Database(Protocol):
    """The whole engine behind a server."""

    def catalog_of(self, principal: Principal) -> Catalog:
        """Return the catalog as a user sees it now."""

    @property
    def queries(self) -> Queries:
        """Return the log of queries."""

    @property
    def quarantine(self) -> Quarantine:
        """Return the statements refused since the server died."""

    def session(self, principal: Principal, *, peer: str = "") -> Session:
        """Open a session of a user, for a client at the address `peer`."""
