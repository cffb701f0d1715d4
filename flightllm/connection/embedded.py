"""A database in this process, without a port."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import ClassVar, TypeVar

import pyarrow as pa

from flightllm.client import Progress
from flightllm.common.admission import AdmissionControl
from flightllm.common.fair_queue import Requester
from flightllm.config import Config
from flightllm.connection.backend import Change, Watch
from flightllm.connection.configuration import for_folder
from flightllm.connection.waiting import STOP_SECONDS
from flightllm.errors import CancelledError, InvalidInputError, NotFoundError, UnsupportedError
from flightllm.execution.cancel_token import stopped_by
from flightllm.execution.describe import Description
from flightllm.execution.kept_plans import KeptPlan
from flightllm.flight.limits import FlightLimits
from flightllm.flight.results import Recipient, give_up, pulled
from flightllm.flight.updates import GRACE_SECONDS
from flightllm.flight.work import CallDeadline, await_end, begin
from flightllm.observe.query_record import CancelToken, QueryRecord
from flightllm.session.database import Database
from flightllm.session.session import QueryResult, Returned, Session

_T = TypeVar("_T")


class OpenDatabase:
    """A database of this process, which closes with its last session. Safe to use from several threads.

    Without a folder its tables are temporary. Connections to one folder share one database, because only one can have
    the folder.
    """

    _lock = RLock()  # garbage collection can close a connection while this thread holds it
    _first: ClassVar[int | None] = None
    """The process that opened the first database. A forked process has a copy of the number, but not the threads."""
    _shared: "dict[Path, OpenDatabase]" = {}  # noqa: RUF012 - the databases of this process, by folder

    def __init__(self, database: Database, config: Config, folder: Path, *, is_temporary: bool) -> None:
        self.database = database
        self.limits = FlightLimits.of(database.config.limits, database.config.recovery)
        self.slots = AdmissionControl(
            self.limits.concurrent_queries,
            queue=self.limits.queued_queries,
            wait_seconds=self.limits.queue_seconds,
            poll_seconds=self.limits.poll_seconds,
        )
        self.process = os.getpid()
        self._config = config
        self._folder = folder
        self._is_temporary = is_temporary
        self._users = 1

    @classmethod
    def open(cls, config: Config, folder: Path | None) -> "OpenDatabase":
        """Open a database in `folder`, or in a temporary folder; the first AI call loads the model.

        Raises:
            ConfigError: a table or a setting is wrong.
            FlightLLMError: another process uses the folder, or this process with other settings, or this process was
                forked from one with open databases.
        """
        cls._first = cls._first or os.getpid()
        if cls._first != os.getpid():
            raise UnsupportedError(
                f"this process was forked from process {cls._first} after that had opened a database, whose threads do"
                " not exist here: use multiprocessing's 'spawn', or connect to a server by its address"
            )
        if folder is None:
            place = Path(tempfile.mkdtemp(prefix="flightllm-open-"))
            try:
                database = Database.open(for_folder(config, place, reads_files=True), lazily=True)
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
            return cls(database, config, place, is_temporary=True)
        place = folder.expanduser().resolve()
        with cls._lock:
            found = cls._shared.get(place)
            if found is not None and found.process == os.getpid():
                return found.shared(config)
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            own = for_folder(config, place, reads_files=True)
            made = cls._shared[place] = cls(Database.open(own, lazily=True), config, place, is_temporary=False)
            return made

    def shared(self, config: Config | None = None) -> "OpenDatabase":
        """Count one more user.

        Raises:
            InvalidInputError: the database is open with another configuration than `config`.
        """
        if config is not None and config != self._config:
            raise InvalidInputError(
                f"{self._folder} is open in this process with other settings: close that connection, or give the same"
                " settings"
            )
        with self._lock:
            self._users += 1
        return self

    def leave(self) -> None:
        """Count one user less; the last one closes the database. A process that was forked does nothing."""
        if self.process != os.getpid():
            return
        with self._lock:
            self._users -= 1
            if self._users:
                return
            if self._shared.get(self._folder) is self:
                del self._shared[self._folder]
            self.database.close()
        if self._is_temporary:
            shutil.rmtree(self._folder, ignore_errors=True)


class EmbeddedSession:
    """A session of a database in this process."""

    def __init__(self, opened: OpenDatabase) -> None:
        self._opened = opened
        self._session: Session = opened.database.session(peer="python")
        self._asker = Requester(self._session.principal.name, self._session.id)
        self._closed = False

    def send(self, sql: str, parameters: pa.RecordBatch | None, watch: Watch) -> "_PlannedQuery | Change":
        """Plan a query, or run a change."""
        session, stop = self._session, CancelToken()
        values = None if parameters is None else pa.Table.from_batches([parameters])

        def work() -> Description | Returned | int:
            if not session.is_update(sql):
                return session.describe(sql, parameters)
            if session.returns_rows(sql):
                return session.update_returning(sql, values, cancelled=stop)
            return session.update(sql, values, cancelled=stop)

        found = self.work(work, stop, lambda: watch(lambda: self._used(stop)))
        if isinstance(found, Description):
            return _PlannedQuery(self, sql, parameters, found.schema, found.plan, found.asks_no_model)
        used = self._used(stop)
        if isinstance(found, Returned):
            return Change(_counted(found.affected), found.rows, lambda: used)
        return Change(_counted(found), None, lambda: used)

    def _used(self, stop: CancelToken) -> Progress | None:
        """Return the work of the change that `stop` can stop; None before it has a record."""
        if not stop.query_id:
            return None
        with suppress(NotFoundError):
            return used_by(self._opened.database.queries.get(stop.query_id))
        return None

    def work(
        self,
        function: Callable[[], _T],
        stop: CancelToken,
        look: Callable[[], None] = lambda: None,
        discard: Callable[[_T], None] = lambda _: None,
    ) -> _T:
        """Run a function in a thread of its own, within the session's time limit and the number of statements at once.

        `stop` ends the function. `discard` gets a result that comes too late.
        """
        limit = self._session.time_limit({})

        def gone() -> bool:
            look()
            return self._closed

        place = self._opened.slots.take(self._asker, gone, lambda: stop.because(CancelledError("the database closes")))
        with stopped_by(stop):
            future = begin(function, place)
        patience = CallDeadline(gone, limit.start())
        try:
            return await_end(future, place, patience, stop=stop.because, discard=discard, grace_seconds=GRACE_SECONDS)
        except KeyboardInterrupt:
            stop.because(None)
            wait([future], STOP_SECONDS)
            future.add_done_callback(lambda done: None if done.exception() else discard(done.result()))
            raise

    def rows(self, result: QueryResult, watch: Watch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a started query; the query ends with the generator."""

        def gone() -> bool:
            watch(lambda: used_by(result.query))
            return self._closed

        recipient = Recipient(gone, self._asker, self._session.time_limit({}))
        for rows in pulled(result, self._opened.limits, self._opened.slots, recipient):
            if isinstance(rows, pa.Table):
                yield from rows.to_batches()
            else:
                yield rows

    @property
    def session(self) -> Session:
        """Return the session that runs the statements."""
        return self._session

    def upload(self, name: str, rows: pa.RecordBatchReader) -> None:
        """Make a temporary table of the session."""
        stop = CancelToken()
        self.work(
            lambda: self._session.ingest(name, rows, rows.schema, "replace", temporary=True, cancelled=stop), stop
        )

    def interrupt(self) -> None:
        """Stop the running statements of the session."""
        for record in self._opened.database.queries.running():
            if record.session_id == self._session.id:
                record.cancel()

    def another(self) -> "EmbeddedSession":
        """Open another session of the same database."""
        return EmbeddedSession(self._opened.shared())

    def close(self) -> None:
        """Close the session, and the database with its last session."""
        if self._closed:
            return
        self._closed = True
        if self._opened.process == os.getpid():
            self.interrupt()
            self._session.close()
        self._opened.leave()


@dataclass(slots=True)
class _PlannedQuery:
    """A query that was planned; `_plan` serves its first run."""

    _of: EmbeddedSession
    _sql: str
    _parameters: pa.RecordBatch | None
    schema: pa.Schema
    _plan: KeptPlan | None
    is_free: bool

    def run(self, watch: Watch) -> "_RunningQuery":
        """Start the query."""

        def start() -> QueryResult:
            plan, self._plan = self._plan, None
            planned = None if plan is None else self._of.session.execute_planned(plan, self._sql)
            return planned or self._of.session.execute(self._sql, self._parameters)

        result = self._of.work(start, CancelToken(), discard=give_up)
        if result.schema != self.schema:
            give_up(result)
            raise InvalidInputError(
                "a table of the query has changed, and so have the columns of its result: send the query again"
            )
        return _RunningQuery(self._of.rows(result, watch), result.query)


@dataclass(frozen=True, slots=True)
class _RunningQuery:
    batches: Iterator[pa.RecordBatch]
    _record: QueryRecord

    def used(self) -> Progress | None:
        """Return the work of the query so far."""
        return used_by(self._record)


def used_by(record: QueryRecord) -> Progress:
    """Return the work of a statement so far."""
    return Progress.read(record.progress())


def _counted(affected: int) -> int | None:
    return None if affected < 0 else affected
