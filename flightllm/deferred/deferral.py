"""Drive the deferred statements of a server: rounds of passes and jobs, until each statement has run to its end."""

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import structlog

from flightllm.common.principal import Principal
from flightllm.deferred.collector import Collector, Spending, no_endpoint
from flightllm.deferred.jobs import Jobs, cut
from flightllm.deferred.store import ENDED, Batch, BatchStore
from flightllm.engines.registry import Engines
from flightllm.errors import (
    BusyError,
    CancelledError,
    EngineUnavailableError,
    FlightLLMError,
    InternalError,
    InvalidInputError,
    NotFoundError,
    QuarantinedError,
    UnansweredError,
    UnsupportedError,
)
from flightllm.execution.deferral import DeferredStatement, Forecast
from flightllm.llm.batch_endpoint import BatchEndpoint, BatchLimits, batch_endpoint, batch_prices
from flightllm.llm.cost import Work
from flightllm.observe.query_record import CancelToken
from flightllm.observe.statement_texts import shown_statement

_FIRST_PAUSE: Final = 0.1
_MOST_PAUSE: Final = 60.0
_LONGER: Final = 1.5
"""Seconds between two looks at a provider's jobs: the first and the longest pause, and the factor from one to the next.
"""
_JOIN_SECONDS: Final = 10.0
_MOST_ROUNDS: Final = 100
"""Far more rounds than calls and waves of a LIMIT need. Rows that change would be bought without end."""
_WAITS: Final = "it waits for {:,} answers of other deferred statements"
_TIDY_SECONDS: Final = 3_600.0
"""Seconds between two looks for statements that are too old."""
_log = structlog.get_logger(__name__)


class Runner(Protocol):
    """Runs a pass of a deferred statement in a session of its user."""

    def run(self, statement: DeferredStatement, collector: Collector, rows: Path, mark: str, stop: CancelToken) -> int:
        """Run a statement; return the number of its rows. A query writes them into the Arrow file `rows`.

        The catalog keeps `mark` together with the change.

        Raises:
            UnansweredError: prompts have no answer yet; the statement has changed nothing.
            FlightLLMError: the statement fails.
        """

    def took_effect(self, mark: str) -> bool:
        """Return whether a change with this mark has happened, whatever has become of its rows since."""

    def spending(self, principal: Principal) -> Spending | None:
        """Return what a user spends in a day; None on a server without users."""


class DeferredStatements:
    """All deferred statements of a server; each that has not ended has a thread. See `Deferral`."""

    def __init__(self, folder: Path, engines: Engines, kept_seconds: float) -> None:
        """Start nothing yet; see `start`. An ended statement is removed after `kept_seconds`."""
        self._kept_seconds = kept_seconds
        self._closing = threading.Event()
        self._tidier: threading.Thread | None = None
        self._folder = folder
        self._engines = engines
        self._runner: Runner | None = None
        self._store = BatchStore(folder / "batches.sqlite")
        self._passes = threading.Lock()
        """Held during a pass: passes run one after the other, beside the statements of clients."""
        self._lock = threading.Lock()
        self._threads: dict[str, tuple[threading.Thread, threading.Event, CancelToken]] = {}
        self._closed = False

    @property
    def store(self) -> BatchStore:
        """Return the store."""
        return self._store

    def start(self, runner: Runner) -> None:
        """Go on with the statements that had not ended when the last process did."""
        self._runner = runner
        for batch in self._store.batches():
            if batch.state not in ENDED:
                self._hold(batch)  # before any other statement of the user can spend it
                self._drive(batch.id, begins=False)
        if self._store.exists:
            self._tidy_at_times()

    def create(self, statement: DeferredStatement, forecast: Forecast) -> str:
        """Keep a statement and begin to run it; return its id."""
        batch_id = secrets.token_hex(6)
        self._store.create(batch_id, statement, forecast)
        self._drive(batch_id, begins=True)
        self._tidy_at_times()
        return batch_id

    def remove(self, batch_id: str, principal: Principal) -> None:
        """Remove a statement that has ended; see `Deferral.remove`."""
        batch = self._of(batch_id, principal)
        if batch.state not in ENDED:
            raise InvalidInputError(f"the deferred statement {batch_id} is {batch.state}: cancel it first")
        self._remove(batch.id)

    def tidy(self) -> None:
        """Remove the statements that ended longer ago than they are kept."""
        latest = time.time() - self._kept_seconds
        for batch in self._store.batches():
            if batch.ended is not None and batch.ended < latest:
                self._remove(batch.id)

    def _remove(self, batch_id: str) -> None:
        self._rows(batch_id).unlink(missing_ok=True)
        self._store.remove(batch_id)

    def _tidy_at_times(self) -> None:
        """Start the thread that removes old statements, unless it runs."""
        with self._lock:
            if self._tidier is None and not self._closed:
                self._tidier = threading.Thread(target=self._tidy, name="old batches", daemon=True)
                self._tidier.start()

    def _tidy(self) -> None:
        while True:
            try:
                self.tidy()
            except (FlightLLMError, OSError) as error:
                if self._closing.is_set():
                    return
                _log.warning("old deferred statements stay", error=str(error))
            if self._closing.wait(_TIDY_SECONDS):
                return

    def cancel(self, batch_id: str, principal: Principal) -> None:
        """Stop a statement; see `Deferral.cancel`."""
        batch = self._of(batch_id, principal)
        if batch.state in ENDED or not self._store.turn(batch.id, "cancelling"):
            return
        with self._lock:
            found = self._threads.get(batch.id)
        if found is not None:
            _, woken, stop = found
            stop.set()
            woken.set()

    def rows(self) -> list[dict[str, object]]:
        """Return the rows of `system.batches`; times are in microseconds since 1970."""
        return [self._row(batch) for batch in self._store.batches()]

    def _row(self, batch: Batch) -> dict[str, object]:
        counts, forecast = self._store.counts(batch.id), batch.forecast
        ends = self._store.ends(batch.id)
        return {
            "id": batch.id,
            "user": batch.user,
            "sql": shown_statement(batch.statement.sql),
            "state": batch.state,
            "error": batch.error,
            "rounds": batch.round,
            "prompts": max(counts.prompts, forecast.prompts) if batch.state not in ENDED else counts.prompts,
            "sent": counts.sent,
            "answered": counts.answered,
            "failed": counts.failed,
            "rows": batch.rows,
            "price_estimated": forecast.price,
            "price_immediate": forecast.immediate_price,
            "price": batch.paid,
            "provider_batches": self._store.provider_ids(batch.id),
            "created": _microseconds(batch.created),
            "ends": _microseconds(ends),
            "ended": _microseconds(batch.ended),
        }

    def result(self, batch_id: str, principal: Principal) -> pa.Table:
        """Return the rows of a query that is done; see `Deferral.result`."""
        batch = self._of(batch_id, principal)
        if batch.statement.is_update:
            raise InvalidInputError(f"the deferred statement {batch_id} changes a table: it has no rows of its own")
        if batch.state != "done":
            said = f": {batch.error}" if batch.error else ""
            raise InvalidInputError(f"the deferred statement {batch_id} has no rows, it is {batch.state}{said}")
        try:
            with pa.memory_map(str(self._rows(batch.id))) as source:
                return pa.ipc.open_file(source).read_all()
        except (OSError, pa.ArrowInvalid) as error:
            raise InternalError(f"the rows of the deferred statement {batch_id} cannot be read: {error}") from error

    def _of(self, batch_id: str, principal: Principal) -> Batch:
        found = self._store.batches(batch_id)
        if not found or not (principal.is_admin or found[0].user == principal.name):
            raise NotFoundError(f"there is no deferred statement {batch_id!r} of yours; see system.batches")
        return found[0]

    @property
    def _runs(self) -> Runner:
        if self._runner is None:
            raise InternalError("deferred statements have no runner yet")
        return self._runner

    def _rows(self, batch_id: str) -> Path:
        return self._folder / f"{batch_id}.arrow"

    def close(self) -> None:
        """Stop the threads; a later process goes on. Idempotent."""
        with self._lock:
            self._closed = True
            self._closing.set()
            running = list(self._threads.values())
        for _, woken, stop in running:
            stop.set()
            woken.set()
        for thread, _, _ in running:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)
        if self._tidier is not None:
            self._tidier.join(_JOIN_SECONDS)
        self._store.close()

    def _drive(self, batch_id: str, *, begins: bool) -> None:
        woken, stop = threading.Event(), CancelToken()
        thread = threading.Thread(
            target=self._run, args=(batch_id, woken, stop, begins), name=f"batch {batch_id}", daemon=True
        )
        with self._lock:
            if self._closed:
                return
            self._threads[batch_id] = thread, woken, stop
        thread.start()

    def _run(self, batch_id: str, woken: threading.Event, stop: CancelToken, begins: bool) -> None:  # noqa: FBT001 - a thread passes no names
        """Drive one statement to its end, or until the server stops."""
        pause = _FIRST_PAUSE
        try:
            while not self._closed:
                [batch] = self._store.batches(batch_id)
                if batch.state in ENDED:
                    return
                moved = self._attempt(batch, stop, begins=begins)
                pause = _FIRST_PAUSE if moved else min(pause * _LONGER, _MOST_PAUSE)
                begins = False
                if not moved:
                    woken.wait(pause)
                    woken.clear()
        except Exception as error:  # noqa: BLE001 - a thread must not end without a word
            if self._closed:
                return
            said = str(error) if isinstance(error, FlightLLMError) else f"internal error ({type(error).__name__})"
            if not isinstance(error, FlightLLMError):
                _log.exception("deferred statement failed", batch=batch_id)
            with suppress(FlightLLMError):  # its other jobs must not go on to cost money
                Jobs(self._store, batch_id, self._endpoint).advance(cancelled=True)
            with suppress(FlightLLMError):
                self._store.note(batch_id, None, self._paid(batch_id))
            with suppress(FlightLLMError):
                self._store.turn(batch_id, "failed", error=said)
            with suppress(FlightLLMError, ValueError):
                [batch] = self._store.batches(batch_id)
                self._book(batch)
                self._hold(batch)
        finally:
            with self._lock:
                self._threads.pop(batch_id, None)
            self._wake_others(batch_id)

    def _attempt(self, batch: Batch, stop: CancelToken, *, begins: bool) -> bool:
        """Do a step, or note why the statement waits or stops; return whether to go on at once."""
        try:
            return self._step(batch, stop, begins=begins)
        except (EngineUnavailableError, BusyError, QuarantinedError) as error:
            if batch.state != "cancelling":  # its error says why it stops
                self._store.note(batch.id, f"it waits, because {error}", batch.paid)
            return False
        except FlightLLMError as error:
            # the finished prompts of its other jobs are paid for, so their answers must not be lost
            if batch.state == "waiting" and self._store.turn(batch.id, "cancelling", error=str(error)):
                return True
            raise

    def _step(self, batch: Batch, stop: CancelToken, *, begins: bool) -> bool:
        """Do what a statement's state asks for; return whether to go on at once."""
        jobs = Jobs(self._store, batch.id, self._endpoint)
        if batch.state == "cancelling":
            ended = jobs.advance(cancelled=True)
            self._book(batch)
            if not ended:
                return False
            self._keep_answers(batch)
            self._store.note(batch.id, batch.error, self._paid(batch.id))
            self._store.turn(batch.id, "failed" if batch.error else "cancelled", error=batch.error)
            return True
        if batch.state == "waiting":
            left = len(self._store.jobs(batch.id))
            ended, others = jobs.advance(), self._store.awaited(batch.id)
            self._book(batch)
            said = None if not (ended and others) else _WAITS.format(others)
            if said != batch.error or ended:
                self._store.note(batch.id, said, self._paid(batch.id))
            if len(self._store.jobs(batch.id)) < left:
                self._wake_others(batch.id)
            return ended and not others and self._store.turn(batch.id, "collecting")
        return self._pass(batch, stop, begins=begins)

    def _pass(self, batch: Batch, stop: CancelToken, *, begins: bool) -> bool:
        """Run the statement as far as its answers reach, and make jobs of the other prompts."""
        if not begins and batch.statement.is_update and self._runs.took_effect(batch.id):
            self._store.turn(batch.id, "done")  # the process ended between the change and its note
            return True
        self._book(batch)
        self._store.begin_round(batch.id)
        collector = Collector(self._store, batch.id, self._runs.spending(batch.statement.principal))
        rows = self._rows(batch.id)
        try:
            with self._passes:
                try:
                    count = self._runs.run(batch.statement, collector, rows, batch.id, stop)
                finally:
                    collector.flush()  # the next pass must see what this one has listed
        except UnansweredError:
            if batch.round >= _MOST_ROUNDS:
                raise UnsupportedError(
                    f"the statement has had other prompts in each of {_MOST_ROUNDS} rounds: store the rows it reads"
                    " first, by CREATE TABLE … AS SELECT"
                ) from None
            made = self._end_round(batch.id)
            self._hold(batch)
            if not made and not collector.awaited:
                [now] = self._store.batches(batch.id)
                if now.state == "collecting":
                    raise InternalError("a pass of the statement lacks answers, but no prompt waits for one") from None
            return True
        except CancelledError:
            if self._closed or self._store.batches(batch.id)[0].state == "cancelling":
                return True
            raise
        except (EngineUnavailableError, BusyError, QuarantinedError):
            raise
        except FlightLLMError:
            self._keep_answers(batch)  # the failing answer can have come before others
            raise
        said = None if collector.refusal is None else f"{collector.refusal}; the other rows have NULL"
        self._store.turn(batch.id, "done", rows=count, error=said)
        return True

    def _keep_answers(self, batch: Batch) -> None:
        """Put the answers of a statement that stops into the answer cache, without any effect."""
        collector = Collector(self._store, batch.id, keeping=True)
        with suppress(FlightLLMError), self._passes:
            self._runs.run(batch.statement, collector, self._rows(batch.id), batch.id, CancelToken())
        self._rows(batch.id).unlink(missing_ok=True)

    def _wake_others(self, batch_id: str) -> None:
        """Let the other statements look whether the answers that they wait for have come."""
        with self._lock:
            woken = [one for other, (_, one, _) in self._threads.items() if other != batch_id]
        for one in woken:
            one.set()

    def _end_round(self, batch_id: str) -> int:
        """Divide the listed prompts into jobs; return their number."""
        limits = dict[str | None, BatchLimits]()
        for model in self._store.listed_models(batch_id):  # a model can take long to open, and the store must not wait
            with self._endpoint(model) as endpoint:
                limits[model] = endpoint.limits
        return self._store.end_round(batch_id, lambda model, prompts: cut(prompts, limits[model]))

    @contextmanager
    def _endpoint(self, model: str | None) -> Iterator[BatchEndpoint]:
        with self._engines.using([model]) as models:
            found = batch_endpoint(models[model].engine)
            if found is None:
                raise no_endpoint(models[model])
            yield found

    def _book(self, batch: Batch) -> None:
        """Count what ended jobs have taken as spent by the user, and keep what open jobs can still take.

        A crash between both notes counts a job twice: a limit holds all the same.
        """
        spending = self._runs.spending(batch.statement.principal)
        for job, model, work in self._store.unbooked(batch.id):
            if spending is not None and work.calls:
                spending.book(work.calls, work.tokens, self._price(model, work) or 0.0)
            self._store.book(job)
        self._hold(batch)

    def _hold(self, batch: Batch) -> None:
        """Reserve what the open jobs of a statement can still take of the user's budget."""
        spending = self._runs.spending(batch.statement.principal)
        if spending is not None:
            spending.keep(batch.id, *self._store.held(batch.id))

    def _paid(self, batch_id: str) -> float | None:
        """Return what the providers charge for a statement so far, or None if a model has no prices."""
        prices = [self._price(model, work) for model, work in self._store.works(batch_id).items()]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

    def _price(self, model: str | None, work: Work) -> float | None:
        with self._engines.using([model]) as models:
            prices = models[model].costs.prices
            found = batch_endpoint(models[model].engine)
        return None if prices is None or found is None else batch_prices(prices, found).price(work)


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
