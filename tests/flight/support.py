"""A small real database behind the protocol: DataFusion with no AI functions, so that its tests stay fast."""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from flightllm.catalog import TableInfo
from flightllm.common.limits import TimeLimit
from flightllm.common.names import TableName
from flightllm.common.principal import Principal
from flightllm.errors import (
    CancelledError,
    FlightLLMError,
    InvalidInputError,
    NotFoundError,
    SqlError,
    UnsupportedError,
)
from flightllm.execution.deferral import Deferral
from flightllm.execution.describe import Description
from flightllm.observe.spans import NO_SPANS
from flightllm.recovery.quarantine import Quarantine
from flightllm.session.session import Returned

_UPDATE = re.compile(r"\s*(create|drop|insert|set|delete)\b", re.IGNORECASE)
_SLOW = re.compile(r"\s*slow\b", re.IGNORECASE)


@dataclass
class Record:
    """A query's id and whether it was cancelled or closed."""

    query_id: str = field(default_factory=lambda: uuid4().hex)
    user: str = "local"
    cancelled: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)
    """Its first batch is waited for."""
    closed: threading.Event = field(default_factory=threading.Event)

    waited: float = 0.0

    @property
    def stopped(self) -> bool:
        """Return whether it was cancelled."""
        return self.cancelled.is_set()

    @property
    def reason(self) -> FlightLLMError | None:
        """Return why it was stopped: never for a failure."""
        return None

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Ask the query to stop."""
        del reason
        self.cancelled.set()

    def progress(self) -> dict[str, Any]:
        """Return how far it is."""
        status = "done" if self.closed.is_set() else "cancelled" if self.cancelled.is_set() else "running"
        return {"query_id": self.query_id, "status": status, "calls_done": 0, "calls_expected": 0}

    has_calls = True

    def queued(self, seconds: float) -> None:
        """Note how long it waited."""
        self.waited += seconds


@dataclass(frozen=True)
class Result:
    """A lazy result."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    query: Record

    def answer_columns(self) -> None:
        """Return None: it makes no AI calls."""


class TinyDatabase:
    """DataFusion tables; `slow` is a query that blocks before its first batch, `broken` one that has a defect.

    `hard` is one that cannot be planned, nor stopped while it is, until `may_plan` is set.
    """

    def __init__(self) -> None:
        config = SessionConfig(
            {
                "datafusion.sql_parser.map_string_types_to_utf8view": "false",
                "datafusion.catalog.default_catalog": "flightllm",
            }
        ).with_information_schema(enabled=True)
        self.context = SessionContext(config)
        self.updates: list[str] = []
        self.records: list[Record] = []
        self.sessions = 0
        self.spans = NO_SPANS
        self.quarantine = Quarantine()
        self.time_limit = TimeLimit()
        self.wrong_settings = False
        self.may_plan = threading.Event()
        self.plans = 0

    def catalog_of(self, principal: Principal) -> "TinyDatabase":
        """Return itself, whoever asks."""
        del principal
        return self

    def session(self, principal: Principal, *, peer: str = "") -> "TinySession":
        """Open a session."""
        del peer
        self.sessions += 1
        return TinySession(self, principal)

    def schemas(self) -> list[str]:
        """Return the schemas' names."""
        return ["public", "system"]

    @property
    def deferred(self) -> Deferral:
        """Return nothing: no test here defers."""
        raise UnsupportedError("there are no deferred statements")

    @property
    def queries(self) -> "TinyDatabase":
        """Return itself."""
        return self

    def running(self) -> list[Record]:
        """Return no query."""
        return []

    def get(self, query_id: str) -> Record:
        """Return a query by its id."""
        for record in self.records:
            if record.query_id == query_id:
                return record
        raise NotFoundError(f"there is no query {query_id!r}; see system.queries")

    def tables(self) -> list[TableInfo]:
        """Return the tables."""
        names = self.context.catalog("flightllm").schema("public").table_names()
        return [TableInfo(TableName("public", name), "BASE TABLE", self.context.table(name).schema()) for name in names]

    def close(self) -> None:
        """Do nothing."""


class TinySession:
    """A session over the shared context."""

    def __init__(self, database: TinyDatabase, principal: Principal) -> None:
        self.principal = principal
        self.rights = principal.role
        self._database = database
        self._options = {"catalog": "flightllm", "schema": "public", "optimizer": "on"}
        self._transactions: set[bytes] = set()
        self.id = f"s{database.sessions}"

    def time_limit(self, settings: Mapping[str, str]) -> TimeLimit:
        """Return that of the database."""
        del settings
        if self._database.wrong_settings:
            raise InvalidInputError("no such setting")
        return self._database.time_limit

    def speak_postgres(self, parameters: object = None) -> None:
        """Do nothing: no test here asks the catalog."""

    def is_update(self, sql: str, settings: Mapping[str, str] | None = None) -> bool:
        """Look at the first word."""
        del settings
        return _UPDATE.match(sql) is not None

    def changes_temporary(self, sql: str) -> bool:
        """Know no temporary tables."""
        del sql
        return False

    def returns_rows(self, sql: str, settings: Mapping[str, str] | None = None) -> bool:
        """Know no RETURNING."""
        del sql, settings
        return False

    def update_returning(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: threading.Event | None = None,
    ) -> Returned:
        """Run an update, and return no rows."""
        return Returned(self.update(sql, parameters, settings, cancelled=cancelled), pa.table({}))

    def describe(
        self, sql: str, row: pa.RecordBatch | None = None, settings: Mapping[str, str] | None = None
    ) -> Description:
        """Plan a statement."""
        del settings
        parameters = pa.schema([(str(i), pa.string()) for i in range(sql.count("?"))])
        if _UPDATE.match(sql):
            return Description(pa.schema([]), is_update=True, parameters=parameters)
        if _SLOW.match(sql):
            return Description(pa.schema([("a", pa.int64())]), is_update=False, parameters=parameters)
        return Description(
            self._plan(_bind(sql, row).replace("?", "'0'").replace("settings()", "'0'")).schema(),
            is_update=False,
            parameters=parameters,
        )

    def execute(
        self, sql: str, parameters: pa.RecordBatch | None = None, settings: Mapping[str, str] | None = None
    ) -> Result:
        """Start a query."""
        if sql.startswith("hard"):
            self._database.may_plan.wait(60)
            sql = "SELECT 1 AS a"
        record = Record()
        self._database.records.append(record)
        if _SLOW.match(sql):
            return Result(pa.schema([("a", pa.int64())]), self._slow(record), record)
        if "settings()" in sql:
            effective = {**self._options, **(settings or {})}
            sql = sql.replace("settings()", "'" + ",".join(f"{k}={v}" for k, v in sorted(effective.items())) + "'")
        frame = self._plan(_bind(sql, parameters))
        return Result(frame.schema(), self._run(frame, record, sql), record)

    def why(self, sql: str, row: Sequence[str | None], settings: Mapping[str, str] = MappingProxyType({})) -> Result:
        """Tell nothing."""
        raise NotImplementedError

    def execute_planned(self, plan: object, sql: str, settings: Mapping[str, str] | None = None) -> None:
        """Keep no plans."""
        del plan, sql, settings

    def describe_plan(self, plan: bytes) -> Description:
        """Take no plans."""
        raise InvalidInputError(f"no Substrait plan of {len(plan)} bytes")

    def execute_plan(self, plan: bytes, settings: Mapping[str, str] | None = None) -> Result:
        """Take no plans."""
        raise InvalidInputError(f"no Substrait plan of {len(plan)} bytes under {settings}")

    def update(
        self,
        sql: str,
        parameters: pa.Table | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        *,
        cancelled: threading.Event | None = None,
    ) -> int:
        """Run an update, once for each row of parameters."""
        del settings
        self._database.updates.append(sql)
        rows = [None] if parameters is None else [parameters.slice(i, 1) for i in range(parameters.num_rows)]
        for row in rows:
            if cancelled is not None and cancelled.is_set():
                raise CancelledError("cancelled")
            bound = _bind(sql, None if row is None else row.combine_chunks().to_batches()[0])
            self._plan(bound).collect()
        return len(rows)

    def check_writable(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """Allow every upload."""
        del settings

    def addressed(self, table: str, db_schema: str = "") -> TableInfo:
        """Return a table."""
        del db_schema
        return next(info for info in self._database.tables() if info.name.name == table)

    def ingest(
        self, table: str, reader: Iterable[pa.RecordBatch], schema: pa.Schema, mode: str, **options: object
    ) -> int:
        """Write a table."""
        del options
        context = self._database.context
        exists = context.table_exist(table)
        if mode == "create" and exists:
            raise InvalidInputError(f"the table {table!r} exists already")
        if mode == "append" and not exists:
            raise NotFoundError(f"there is no table {table!r}")
        new = list(reader)
        old = context.table(table).collect() if exists and mode in ("append", "create_append") else []
        context.deregister_table(table)
        context.register_record_batches(table, [[*old, *new] or [pa.RecordBatch.from_pylist([], schema=schema)]])
        return sum(batch.num_rows for batch in new)

    @property
    def catalog(self) -> TinyDatabase:
        """Return the catalog, which has no temporary tables."""
        return self._database

    def table_exists(self, table: str, db_schema: str, *, temporary: bool) -> bool:
        """Return whether there is a table."""
        del db_schema, temporary
        return bool(self._database.context.table_exist(table))

    def begin(self) -> bytes:
        """Begin a transaction."""
        self._transactions.add(b"t1")
        return b"t1"

    def check_transaction(self, transaction: bytes) -> None:
        """Check that it was begun."""
        if transaction not in self._transactions:
            raise NotFoundError("there is no such transaction")

    def end(self, transaction: bytes, *, commit: bool) -> None:
        """End a transaction."""
        del commit
        self.check_transaction(transaction)
        self._transactions.remove(transaction)

    def set_option(self, key: str, value: str) -> None:
        """Change a setting; the catalog is fixed."""
        if key == "catalog":
            raise NotFoundError(f"there is no catalog {value!r}")
        if key not in self._options or value not in ("on", "off"):
            raise InvalidInputError(f"no setting {key}={value}")
        self._options[key] = value

    def kept(self) -> dict[str, str]:
        """Return no settings."""
        return {}

    def go_back(self, kept: dict[str, str]) -> None:
        """Keep the settings."""

    def reset_option(self, key: str) -> None:
        """Put a setting back to its default."""
        self.set_option(key, "on")

    def get_options(self) -> Mapping[str, str]:
        """Return the settings."""
        return dict(self._options)

    def state(self) -> object:
        """Return the settings."""
        return self.get_options()

    def restore(self, state: Any) -> None:
        """Continue another session."""
        for key, value in state.items():
            self.set_option(key, value)

    def close(self) -> None:
        """Do nothing."""

    def _plan(self, sql: str) -> Any:
        self._database.plans += 1
        try:
            return self._database.context.sql(sql)
        except Exception as exc:
            raise SqlError(f"cannot plan: {exc}") from exc

    def _run(self, frame: Any, record: Record, sql: str) -> Iterator[pa.RecordBatch]:
        try:
            for batch in pa.RecordBatchReader.from_stream(frame):
                if record.cancelled.is_set():
                    raise CancelledError("cancelled")
                yield batch
            if "broken" in sql:
                raise RuntimeError("secret of /srv/secret.py")
        finally:
            record.closed.set()

    def _slow(self, record: Record) -> Iterator[pa.RecordBatch]:
        try:
            record.begun.set()
            record.cancelled.wait(60)
            raise CancelledError("cancelled")
            yield
        finally:
            record.closed.set()


def _bind(sql: str, parameters: pa.RecordBatch | None) -> str:
    for column in parameters.columns if parameters is not None else []:
        value = column[0].as_py()
        sql = sql.replace("?", "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value), 1)
    return sql
