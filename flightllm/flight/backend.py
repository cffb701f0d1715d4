"""The methods of databases and sessions that the protocol layer calls; its tests have a small database of their own."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from flightllm.catalog import IngestMode, TableInfo
from flightllm.common.limits import TimeLimit
from flightllm.common.principal import Principal
from flightllm.errors import FlightLLMError
from flightllm.execution.deferral import Deferral
from flightllm.execution.describe import Description
from flightllm.execution.kept_plans import KeptPlan
from flightllm.observe.query_record import CancelToken
from flightllm.observe.spans import Spans
from flightllm.recovery.quarantine import Quarantine
from flightllm.session.session import Returned
from flightllm.sql.client_parameters import ParameterTable


class BackendQueryRecord(Protocol):
    """A started query."""

    @property
    def query_id(self) -> str:
        """Return the id in logs and `system.queries`."""

    @property
    def user(self) -> str:
        """Return the name of the user who started the query."""

    @property
    def stopped(self) -> bool:
        """Return whether the query was asked to stop."""

    @property
    def reason(self) -> FlightLLMError | None:
        """Return the error that stopped the query, or None if the stop is not a failure."""

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Ask the query to stop and return at once; with a reason, the query counts as failed."""

    def queued(self, seconds: float) -> None:
        """Record the seconds that the query waited for its turn."""

    @property
    def has_calls(self) -> bool:
        """Return whether the query has AI calls so far."""

    def progress(self) -> Mapping[str, Any]:
        """Return the query's progress, as values of JSON.

        `status` is planned, running, done, failed or cancelled; `calls_done` and `calls_expected` count model calls.
        """


class BackendQueryResult(Protocol):
    """A lazy result: the query runs while the caller pulls `batches`."""

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of every batch."""

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Return the one iterator over the rows; closing it stops the query."""

    @property
    def query(self) -> BackendQueryRecord:
        """Return the query's record."""

    def answer_columns(self) -> tuple[int, ...] | None:
        """Return the columns that depend on AI calls, or None if nothing tells the prompts of a row."""


class BackendSession(Protocol):
    """One client's state and statements."""

    @property
    def principal(self) -> Principal:
        """Return the user of the session."""

    @property
    def rights(self) -> object:
        """Return a value that changes whenever the user's privileges change."""

    @property
    def id(self) -> str:
        """Return the session's id in `system.sessions`; the id is not secret."""

    def time_limit(self, settings: Mapping[str, str]) -> TimeLimit:
        """Return the time limit of a statement under the session's settings and `settings`."""

    def speak_postgres(self, parameters: ParameterTable | None = ...) -> None:
        """Answer queries about the catalog as PostgreSQL does, from now on, with the connection's parameters."""

    def is_update(self, sql: str, settings: Mapping[str, str] = ...) -> bool:
        """Return whether `sql` is DDL, DML or SET; reads only its text."""

    def changes_temporary(self, sql: str) -> bool:
        """Return whether `sql` changes the rows of a temporary table; reads only its text."""

    def returns_rows(self, sql: str, settings: Mapping[str, str] = ...) -> bool:
        """Return whether `sql` changes data and returns rows; reads only its text."""

    def describe(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = ...
    ) -> Description:
        """Plan `sql` without running anything; `parameters` holds one row of parameters."""

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] = ...
    ) -> BackendQueryResult:
        """Start a query with at most one row of parameters; for a batch without rows the result is empty."""

    def why(self, sql: str, row: Sequence[str | None], settings: Mapping[str, str] = ...) -> BackendQueryResult:
        """Start the query that tells the prompts behind a row of `sql`."""

    def execute_planned(self, plan: KeptPlan, sql: str, settings: Mapping[str, str] = ...) -> BackendQueryResult | None:
        """Start a query by the plan of its description; return None if the plan is outdated."""

    def describe_plan(self, plan: bytes) -> Description:
        """Plan a serialized Substrait plan without running anything."""

    def execute_plan(self, plan: bytes, settings: Mapping[str, str] = ...) -> BackendQueryResult:
        """Start a serialized Substrait plan."""

    def update(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = ...,
        *,
        cancelled: CancelToken | None = None,
    ) -> int:
        """Run DDL, DML or SET once, or once per parameter row; return the rows affected or -1."""

    def update_returning(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = ...,
        *,
        cancelled: CancelToken | None = None,
    ) -> Returned:
        """Run a change with RETURNING once, or once per parameter row; return the rows of RETURNING."""

    def addressed(self, table: str, db_schema: str = ...) -> TableInfo:
        """Return the table to which an upload with these names adds rows."""

    def ingest(
        self,
        table: str,
        reader: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: IngestMode,
        *,
        db_schema: str = ...,
        temporary: bool = False,
        cancelled: CancelToken | None = None,
    ) -> int:
        """Write batches to a table; return the rows written."""

    def check_writable(self, settings: Mapping[str, str] = ...) -> None:
        """Check that the session can take an upload under the call's settings."""

    def table_exists(self, table: str, db_schema: str, *, temporary: bool) -> bool:
        """Return whether the table exists that an upload wants to replace."""

    @property
    def catalog(self) -> "BackendCatalog":
        """Return the catalog as the session's user sees it now, with the session's temporary tables."""

    def begin(self) -> bytes:
        """Begin a transaction and return its id."""

    def check_transaction(self, transaction: bytes) -> None:
        """Raise `NotFoundError` if the session has no transaction with this id."""

    def end(self, transaction: bytes, *, commit: bool) -> None:
        """End a transaction; raises `UnsupportedError` if it cannot be rolled back."""

    def set_option(self, key: str, value: str) -> None:
        """Change a setting; raises `InvalidInputError` for an unknown key or value."""

    def reset_option(self, key: str) -> None:
        """Reset a setting to its default; raises `InvalidInputError` for an unknown key."""

    def get_options(self) -> Mapping[str, str]:
        """Return every setting and its value."""

    def kept(self) -> Any:
        """Return the settings and the search path, to go back to with `go_back`."""

    def go_back(self, kept: Any) -> None:
        """Take earlier settings and an earlier search path again."""

    def state(self) -> object | None:
        """Return what another process needs to continue this session; None if no other process can."""

    def restore(self, state: Any) -> None:
        """Continue a session of another process, from its `state`."""

    def close(self) -> None:
        """End the session."""


class Queries(Protocol):
    """The log of recent queries."""

    @property
    def spans(self) -> Spans:
        """Return the spans of traces."""

    def running(self) -> Sequence[BackendQueryRecord]:
        """Return the queries that are planned or run."""

    def get(self, query_id: str) -> BackendQueryRecord:
        """Return a query's record; raises `NotFoundError` for an unknown id."""


class BackendCatalog(Protocol):
    """The tables that all sessions share."""

    def schemas(self) -> Iterable[str]:
        """Return the names of the database schemas."""

    def tables(self) -> Iterable[TableInfo]:
        """Return every table."""


class BackendDatabase(Protocol):
    """The whole engine behind a server."""

    def catalog_of(self, principal: Principal) -> BackendCatalog:
        """Return the catalog as a user sees it now."""

    @property
    def queries(self) -> Queries:
        """Return the log of queries."""

    @property
    def deferred(self) -> Deferral:
        """Return the statements that wait for a batch endpoint."""

    @property
    def quarantine(self) -> Quarantine:
        """Return the statements refused since the server died."""

    def session(self, principal: Principal, *, peer: str = "") -> BackendSession:
        """Open a session of a user, for a client at the address `peer`."""
