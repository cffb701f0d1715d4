"""The deferred statements of a server, their prompts and the provider's jobs, in a SQLite file of the data folder."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeAlias, TypeVar

from flightllm.common.principal import Principal
from flightllm.engines.batch_starts import MARKS
from flightllm.errors import InternalError
from flightllm.execution.deferral import DeferredStatement, Forecast
from flightllm.llm.batch_endpoint import Draft, LineResult
from flightllm.llm.cost import Work

State = Literal["collecting", "waiting", "cancelling", "done", "failed", "cancelled"]
ENDED: Final = ("done", "failed", "cancelled")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS batches (
    id TEXT PRIMARY KEY, created REAL NOT NULL, user TEXT NOT NULL, statement TEXT NOT NULL, parameters BLOB,
    state TEXT NOT NULL, error TEXT, round INTEGER NOT NULL DEFAULT 0, rows INTEGER, ended REAL,
    prompts INTEGER NOT NULL, price REAL, immediate REAL, paid REAL);
CREATE TABLE IF NOT EXISTS jobs (
    name TEXT PRIMARY KEY, batch TEXT NOT NULL, model TEXT, created REAL NOT NULL, tried INTEGER NOT NULL DEFAULT 0,
    provider TEXT, state TEXT NOT NULL DEFAULT 'new', ends REAL);
CREATE INDEX IF NOT EXISTS jobs_of ON jobs (batch);
CREATE TABLE IF NOT EXISTS prompts (
    batch TEXT NOT NULL, number INTEGER NOT NULL, digest BLOB NOT NULL, model TEXT, state TEXT NOT NULL,
    tries INTEGER NOT NULL, body TEXT, note TEXT NOT NULL, job TEXT, status INTEGER, response BLOB,
    PRIMARY KEY (batch, digest));
CREATE UNIQUE INDEX IF NOT EXISTS prompt_number ON prompts (batch, number);
CREATE INDEX IF NOT EXISTS prompts_in ON prompts (job, number);
CREATE INDEX IF NOT EXISTS prompts_like ON prompts (digest);
CREATE TABLE IF NOT EXISTS awaited (
    batch TEXT NOT NULL, digest BLOB NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (batch, digest)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS awaited_of ON awaited (owner);
CREATE TABLE IF NOT EXISTS waits (job TEXT PRIMARY KEY, refusals INTEGER NOT NULL, until REAL, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS leads (job TEXT PRIMARY KEY, after TEXT, prompts INTEGER NOT NULL, ended REAL);
"""
_WORK: Final = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "written_tokens")
_ADDED: Final = (
    ("prompts", "scope", "TEXT"),
    ("prompts", "held_tokens", "INTEGER NOT NULL DEFAULT 0"),
    ("prompts", "held_cost", "REAL NOT NULL DEFAULT 0"),
    ("jobs", "booked", "INTEGER NOT NULL DEFAULT 1"),
    ("jobs", "good", "INTEGER NOT NULL DEFAULT 0"),
    ("jobs", "stored", "INTEGER NOT NULL DEFAULT 0"),
    ("jobs", "refused", "INTEGER NOT NULL DEFAULT 0"),
    *(("jobs", name, "INTEGER NOT NULL DEFAULT 0") for name in _WORK),
)
"""Columns that files of earlier versions lack."""
_REFUSED: Final = "UPDATE jobs SET provider = NULL, tried = 0, state = 'new', refused = refused + 1 WHERE name = ?"
_FINAL: Final = "(status NOT IN (0, 408, 409, 429) AND status < 500)"
"""Whether an answer stays the same in another try; see `LineResult.passes`."""
_OK: Final = 200
_BUSY_SECONDS: Final = 30.0
_TOGETHER: Final = 1_000
"""Prompts of a job that are read or written at a time: a whole job can take hundreds of megabytes."""
Cut: TypeAlias = Callable[[str | None, Iterator[tuple[int, str]]], Iterable[list[int]]]
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Batch:
    """One deferred statement. Times are seconds since 1970; `paid` is the price of the answers so far."""

    id: str
    created: float
    user: str
    statement: DeferredStatement
    state: State
    error: str | None
    round: int
    rows: int | None
    ended: float | None
    forecast: Forecast
    paid: float | None


@dataclass(frozen=True, slots=True)
class Job:
    """One job at a provider. `tried` says that an earlier request can have made it already."""

    name: str
    model: str | None
    created: float
    tried: bool
    provider: str | None
    refused: int = 0
    """How often the provider has refused the job."""

    @property
    def sent_as(self) -> str:
        """Return the job's name at the provider, where a refused job keeps its name, and can have other lines."""
        return f"{self.name}-r{self.refused}" if self.refused else self.name


class Wait(NamedTuple):
    """How a job waits for room at its provider: until a time, with the provider's reason.

    `refusals` counts how often the provider had no room although the statement had no other job there. A job with 0
    refusals waits until another job of the statement ends.
    """

    refusals: int
    until: float
    reason: str


class Followed(NamedTuple):
    """How a job follows another one, whose prompts store the starts that it reads.

    `after` is that job; None for a job that follows none. `ended` is when it ended, None before. `stored` says that all
    of its prompts have stored their starts, or read them.
    """

    after: str | None
    ended: float | None
    stored: bool


class Known(NamedTuple):
    """The state of a prompt, the number of its tries, the note to read its answer, and the answer."""

    state: str
    tries: int
    note: str
    result: LineResult | None


class Listed(NamedTuple):
    """A prompt to send; statements of the same `scope` share its answer."""

    digest: bytes
    model: str | None
    tries: int
    body: str
    note: str
    scope: str
    held_tokens: int = 0
    held_cost: float = 0.0
    """The most tokens and cost that the prompt can take."""


class Held(NamedTuple):
    """The most that prompts without an answer can take."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0


class Counts(NamedTuple):
    """How many prompts of a statement are listed, sent and answered, and how many of the answers are failures."""

    prompts: int
    sent: int
    answered: int
    failed: int


def _guarded(method: Callable[P, T]) -> Callable[P, T]:
    """Raise SQLite's errors as one of the package's errors."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except sqlite3.Error as error:
            raise InternalError(f"the file of deferred statements cannot be used: {error}") from error

    return guarded


class BatchStore:
    """Keeps deferred statements on disk. Thread-safe; each method is one transaction, which survives a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._opened: sqlite3.Connection | None = None
        self._closed = False

    @property
    def exists(self) -> bool:
        """Return whether any statement was ever deferred."""
        return self._opened is not None or self._path.exists()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:  # a thread that goes on after the server must not begin anything
                raise InternalError("the file of deferred statements is closed")
            if self._opened is None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._path.parent.chmod(0o700)  # the prompts and rows are the users' data
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
                self._path.chmod(0o600)  # SQLite gives its other files the same rights
                database = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, check_same_thread=False)
                database.execute("PRAGMA secure_delete = ON")  # removed prompts must not stay in the file
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")  # a submitted job must be known after a power cut
                database.executescript(_SCHEMA)
                for table, column, kind in _ADDED:
                    if column not in {row[1] for row in database.execute(f"PRAGMA table_info({table})")}:
                        database.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
                self._opened = database
            with self._opened:
                yield self._opened

    @_guarded
    def create(self, batch_id: str, statement: DeferredStatement, forecast: Forecast) -> None:
        """Keep a new statement."""
        told = asdict(statement)
        parameters = told.pop("parameters")
        told["principal"]["groups"] = sorted(statement.principal.groups)
        with self._transaction() as database:
            database.execute(
                "INSERT INTO batches (id, created, user, statement, parameters, state, prompts, price, immediate)"
                " VALUES (?, ?, ?, ?, ?, 'collecting', ?, ?, ?)",
                (
                    *(batch_id, time.time(), statement.principal.name, json.dumps(told), parameters),
                    *(forecast.prompts, forecast.price, forecast.immediate_price),
                ),
            )

    @_guarded
    def batches(self, batch_id: str | None = None) -> list[Batch]:
        """Return all statements, the oldest first, or the one with an id."""
        if not self.exists:
            return []
        where, given = ("", ()) if batch_id is None else (" WHERE id = ?", (batch_id,))
        with self._transaction() as database:
            rows = database.execute(
                "SELECT id, created, user, statement, parameters, state, error, round, rows, ended, prompts, price,"
                f" immediate, paid FROM batches{where} ORDER BY created",
                given,
            ).fetchall()
        return [_batch(row) for row in rows]

    @_guarded
    def turn(self, batch_id: str, state: State, *, error: str | None = None, rows: int | None = None) -> bool:
        """Change the state of a statement, unless it has ended; return whether the state changed."""
        ended = time.time() if state in ENDED else None
        with self._transaction() as database:
            changed = database.execute(
                "UPDATE batches SET state = ?, error = ?, rows = ?, ended = ? WHERE id = ?"
                f" AND state NOT IN {ENDED} AND (state <> 'cancelling' OR ? IN {ENDED})",
                (state, error, rows, ended, batch_id, state),
            )
            return changed.rowcount > 0

    @_guarded
    def remove(self, batch_id: str) -> bool:
        """Remove a statement that has ended, with its prompts and answers; return whether it was there."""
        with self._transaction() as database:
            removed = database.execute(f"DELETE FROM batches WHERE id = ? AND state IN {ENDED}", (batch_id,)).rowcount
            if removed:
                _adopt(database, "owner", batch_id)
                database.execute("DELETE FROM waits WHERE job IN (SELECT name FROM jobs WHERE batch = ?)", (batch_id,))
                database.execute("DELETE FROM leads WHERE job IN (SELECT name FROM jobs WHERE batch = ?)", (batch_id,))
                for table in ("jobs", "prompts", "awaited"):
                    database.execute(f"DELETE FROM {table} WHERE batch = ?", (batch_id,))
        if removed:
            with self._lock:
                if self._opened is not None:  # the log of changes has the texts too
                    self._opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed > 0

    @_guarded
    def note(self, batch_id: str, error: str | None, paid: float | None) -> None:
        """Note why a statement waits, or None, and what it has cost so far."""
        with self._transaction() as database:
            database.execute(
                f"UPDATE batches SET error = ?, paid = ? WHERE id = ? AND state NOT IN {ENDED}", (error, paid, batch_id)
            )

    @_guarded
    def known(self, batch_id: str, digest: bytes) -> Known | None:
        """Return what is known about a prompt; None for a new one."""
        with self._transaction() as database:
            row = database.execute(
                "SELECT state, tries, note, number, status, response FROM prompts WHERE batch = ? AND digest = ?",
                (batch_id, digest),
            ).fetchone()
        if row is None:
            return None
        state, tries, note, number, status, response = row
        result = None if response is None else LineResult(str(number), status, response)
        return Known(state, tries, note, result)

    @_guarded
    def owner(self, batch_id: str, digest: bytes, scope: str, *, answered: bool) -> str | None:
        """Return another open statement that has a prompt without an answer; with `answered`, also with one.

        An answer of a statement that failed counts too: the answer cache can lack it, if a table was gone.
        """
        with self._transaction() as database:
            row = database.execute(
                "SELECT batch FROM prompts JOIN batches ON batches.id = batch WHERE digest = ? AND scope = ?"
                f" AND batch <> ? AND ((batches.state NOT IN {ENDED}"
                f" AND (prompts.state <> 'answered' OR (? AND {_FINAL})))"
                f" OR (? AND batches.state = 'failed' AND prompts.state = 'answered' AND status = {_OK}))"
                " ORDER BY prompts.state LIMIT 1",
                (digest, scope, batch_id, answered, answered),
            ).fetchone()
        return None if row is None else str(row[0])

    @_guarded
    def wait_for(self, batch_id: str, prompts: Sequence[tuple[bytes, str]]) -> None:
        """Note which prompts of a statement wait for the answers of other statements: digests and owners."""
        with self._transaction() as database:
            database.executemany(
                "INSERT INTO awaited (batch, digest, owner) VALUES (?, ?, ?)"
                " ON CONFLICT (batch, digest) DO UPDATE SET owner = excluded.owner",
                [(batch_id, digest, owner) for digest, owner in prompts],
            )

    @_guarded
    def awaited(self, batch_id: str) -> int:
        """Return how many prompts of a statement wait for answers that other statements have asked for."""
        with self._transaction() as database:
            (count,) = database.execute(
                "SELECT count(*) FROM awaited JOIN prompts ON prompts.batch = owner AND prompts.digest = awaited.digest"
                f" JOIN batches ON id = owner WHERE awaited.batch = ? AND batches.state NOT IN {ENDED}"
                " AND prompts.state <> 'answered'",
                (batch_id,),
            ).fetchone()
        return int(count)

    @_guarded
    def begin_round(self, batch_id: str) -> None:
        """Take the answers that other statements got, and forget the prompts that a pass listed before a crash."""
        with self._transaction() as database:
            _adopt(database, "batch", batch_id)
            database.execute("DELETE FROM awaited WHERE batch = ?", (batch_id,))
            database.execute("DELETE FROM prompts WHERE batch = ? AND state = 'listed' AND tries = 1", (batch_id,))

    @_guarded
    def add(self, batch_id: str, prompts: Sequence[Listed]) -> None:
        """Keep prompts to send; those that were sent before are sent again, and their tokens so far stay."""
        with self._transaction() as database:
            (last,) = database.execute(
                "SELECT coalesce(max(number), 0) FROM prompts WHERE batch = ?", (batch_id,)
            ).fetchone()
            database.executemany(
                "INSERT INTO prompts (batch, number, digest, model, state, tries, body, note, scope, held_tokens,"
                " held_cost) VALUES (?, ?, ?, ?, 'listed', ?, ?, ?, ?, ?, ?) ON CONFLICT (batch, digest) DO UPDATE SET"
                " state = 'listed', tries = excluded.tries, body = excluded.body, note = excluded.note, job = NULL,"
                " status = NULL, response = NULL, scope = excluded.scope, held_tokens = excluded.held_tokens,"
                " held_cost = excluded.held_cost",
                [(batch_id, number, one.digest, one.model, *one[2:]) for number, one in enumerate(prompts, last + 1)],
            )

    @_guarded
    def listed_models(self, batch_id: str) -> list[str | None]:
        """Return the models whose prompts are listed and in no job yet."""
        with self._transaction() as database:
            rows = database.execute(
                "SELECT DISTINCT model FROM prompts WHERE batch = ? AND state = 'listed' ORDER BY model", (batch_id,)
            ).fetchall()
        return [model for (model,) in rows]

    @_guarded
    def end_round(self, batch_id: str, cut: Cut) -> int:
        """Divide the listed prompts into jobs, and wait for them; return the number of jobs.

        `cut` gets a model with the numbers and bodies of its prompts, and yields the numbers of each job.
        """
        with self._transaction() as database:
            (state,) = database.execute("SELECT state FROM batches WHERE id = ?", (batch_id,)).fetchone()
            if state != "collecting":
                return 0
            (round_,) = database.execute(
                "UPDATE batches SET round = round + 1, state = 'waiting', error = NULL WHERE id = ? RETURNING round",
                (batch_id,),
            ).fetchone()
            models = database.execute(
                "SELECT DISTINCT model FROM prompts WHERE batch = ? AND state = 'listed' ORDER BY model", (batch_id,)
            ).fetchall()
            made = 0
            for (model,) in models:
                listed = database.execute(
                    "SELECT number, body FROM prompts WHERE batch = ? AND state = 'listed' AND model IS ?"
                    " ORDER BY number",
                    (batch_id, model),
                )
                for numbers in list(cut(model, listed)):
                    made += 1
                    name = f"{batch_id}-{round_}-{made}"
                    database.execute(
                        "INSERT INTO jobs (name, batch, model, created, booked) VALUES (?, ?, ?, ?, 0)",
                        (name, batch_id, model, time.time()),
                    )
                    database.executemany(
                        "UPDATE prompts SET state = 'sent', job = ? WHERE batch = ? AND number = ?",
                        [(name, batch_id, number) for number in numbers],
                    )
            return made

    @_guarded
    def jobs(self, batch_id: str, *, ended: bool = False) -> list[Job]:
        """Return the jobs that have not ended; with `ended`, all of them."""
        with self._transaction() as database:
            rows = database.execute(
                "SELECT name, model, created, tried, provider, refused FROM jobs"
                " WHERE batch = ? AND (state <> 'ended' OR ?) ORDER BY created, name",
                (batch_id, ended),
            ).fetchall()
        return [Job(name, model, created, bool(tried), *rest) for name, model, created, tried, *rest in rows]

    @_guarded
    def try_job(self, name: str) -> None:
        """Note, before a job is sent, that the provider can have it from now on."""
        with self._transaction() as database:
            database.execute("UPDATE jobs SET tried = 1 WHERE name = ?", (name,))

    @_guarded
    def sent_job(self, name: str, provider: str, ends: float | None = None) -> None:
        """Note the provider's id of a job, and when it ends."""
        with self._transaction() as database:
            database.execute(
                "UPDATE jobs SET provider = ?, ends = coalesce(?, ends), state = 'sent' WHERE name = ?",
                (provider, ends, name),
            )

    def bodies(self, job: str) -> Iterator[tuple[int, str]]:
        """Yield the numbers and bodies of a job's prompts, in their order."""
        last = 0
        while rows := self._bodies_after(job, last):
            yield from rows
            last, _ = rows[-1]

    @_guarded
    def wait(self, job: str) -> Wait | None:
        """Return how a job waits that was refused because of others; None for another job."""
        with self._transaction() as database:
            row = database.execute("SELECT refusals, until, reason FROM waits WHERE job = ?", (job,)).fetchone()
        return None if row is None else Wait(*row)

    @_guarded
    def send_later(self, job: str, wait: Wait | None = None) -> None:
        """Note that the provider does not have a job: it was refused, and is sent again."""
        with self._transaction() as database:
            database.execute(_REFUSED, (job,))
            if wait is not None:
                database.execute("INSERT OR REPLACE INTO waits VALUES (?, ?, ?, ?)", (job, *wait))

    @_guarded
    def split(self, job: Job, parts: Sequence[Sequence[int]], wait: Wait) -> None:
        """Divide the prompts of a job that no provider has among itself and new jobs, which all wait."""
        with self._transaction() as database:
            database.execute(_REFUSED, (job.name,))
            database.execute("INSERT OR REPLACE INTO waits VALUES (?, ?, ?, ?)", (job.name, *wait))
            database.execute("UPDATE leads SET after = 'divided', ended = 0 WHERE after = ?", (job.name,))
            for numbers in parts[1:]:
                name = self._add_job(database, job)
                database.execute("INSERT INTO waits VALUES (?, ?, ?, ?)", (name, *wait))
                database.execute(
                    "INSERT INTO leads SELECT ?, after, prompts, ended FROM leads WHERE job = ?", (name, job.name)
                )
                database.executemany(
                    "UPDATE prompts SET job = ? WHERE job = ? AND number = ?",
                    [(name, job.name, one) for one in numbers],
                )

    @_guarded
    def followed(self, job: str, *, reports: bool = True) -> Followed | None:
        """Return how a job follows another one; None if that is not decided yet.

        With `reports`, the provider reports the tokens that it stored; otherwise an answer says enough.
        """
        with self._transaction() as database:
            row = database.execute("SELECT after, prompts, ended FROM leads WHERE job = ?", (job,)).fetchone()
            if row is None:
                return None
            after, prompts, ended = row
            counted = "stored" if reports else "good"
            found = database.execute(f"SELECT {counted} FROM jobs WHERE name = ?", (after,)).fetchone()
        return Followed(after, ended, found is not None and found[0] >= prompts)

    @_guarded
    def follow(self, job: Job, ahead: Sequence[int], changed: Mapping[int, Draft]) -> None:
        """Let a job's prompts `ahead` go first in a job of their own, and change the drafts of others."""
        with self._transaction() as database:
            database.executemany(
                "UPDATE prompts SET body = ?, note = ? WHERE job = ? AND number = ?",
                [(json.dumps(draft.body), draft.note, job.name, number) for number, draft in changed.items()],
            )
            name = None
            if ahead:
                name = self._add_job(database, job)
                database.executemany(
                    "UPDATE prompts SET job = ? WHERE job = ? AND number = ?", [(name, job.name, one) for one in ahead]
                )
                database.execute("INSERT INTO leads VALUES (?, NULL, 0, NULL)", (name,))
            database.execute("INSERT INTO leads VALUES (?, ?, ?, NULL)", (job.name, name, len(ahead)))

    @_guarded
    def lead_ended(self, job: str, ended: float) -> None:
        """Note when a job ended, for those that follow it."""
        with self._transaction() as database:
            database.execute("UPDATE leads SET ended = ? WHERE after = ?", (ended, job))

    @_guarded
    def redraft(self, job: str, drafts: Mapping[int, Draft]) -> None:
        """Change the drafts of a job, which then follows no other one."""
        with self._transaction() as database:
            database.executemany(
                "UPDATE prompts SET body = ?, note = ? WHERE job = ? AND number = ?",
                [(json.dumps(draft.body), draft.note, job, number) for number, draft in drafts.items()],
            )
            database.execute("UPDATE leads SET after = NULL WHERE job = ?", (job,))

    @staticmethod
    def _add_job(database: sqlite3.Connection, job: Job) -> str:
        """Add a job of the same round as another one; return its name."""
        of_round = job.name.rpartition("-")[0]
        (made,) = database.execute("SELECT count(*) FROM jobs WHERE name LIKE ? || '-%'", (of_round,)).fetchone()
        name = f"{of_round}-{made + 1}"
        database.execute(
            "INSERT INTO jobs (name, batch, model, created, booked) SELECT ?, batch, model, created, 0 FROM jobs"
            " WHERE name = ?",
            (name, job.name),
        )
        return name

    @_guarded
    def marked(self, job: str) -> dict[int, Draft]:
        """Return the drafts of a job's prompts that mark a start, by their numbers."""
        having = " OR ".join("instr(body, ?)" for _ in MARKS)
        with self._transaction() as database:
            rows = database.execute(
                "SELECT number, body, note FROM prompts WHERE job = ? AND state = 'sent'"
                f" AND ({having}) ORDER BY number",
                (job, *(f'"{mark}"' for mark in MARKS)),
            ).fetchall()
        return {number: Draft(json.loads(body), note) for number, body, note in rows}

    @_guarded
    def answer_lines(self, job: str, results: Iterable[tuple[int, LineResult]]) -> None:
        """Keep the errors of the prompts that made a provider refuse a job, and send the job again without them."""
        with self._transaction() as database:
            database.executemany(
                "UPDATE prompts SET state = 'answered', status = ?, response = ?, body = NULL"
                " WHERE job = ? AND number = ? AND state = 'sent'",
                [(result.status, result.body, job, number) for number, result in results],
            )
            database.execute(_REFUSED, (job,))

    @_guarded
    def _bodies_after(self, job: str, last: int) -> list[tuple[int, str]]:
        with self._transaction() as database:
            return database.execute(
                "SELECT number, body FROM prompts WHERE job = ? AND state = 'sent' AND number > ?"
                " ORDER BY number LIMIT ?",
                (job, last, _TOGETHER),
            ).fetchall()

    @_guarded
    def end_job(self, job: str, results: Iterable[tuple[int, LineResult, Work]], missing: str) -> int:
        """Keep the results of a job that has ended; return how many of its prompts got one.

        A number that the job does not have, and a second result of a number, are ignored. Prompts without a result were
        not processed; `missing` says why. A crash in between loses no result, because the same results come again.
        """
        got, rest = 0, iter(results)
        while some := list(islice(rest, _TOGETHER)):
            got += self._keep_results(job, some)
        with self._transaction() as database:
            database.execute(
                "UPDATE prompts SET state = 'answered', status = 0, response = ? WHERE job = ? AND state = 'sent'",
                (missing.encode(), job),
            )
            database.execute("UPDATE jobs SET state = 'ended' WHERE name = ?", (job,))
            database.execute("UPDATE leads SET ended = ? WHERE after = ? AND ended IS NULL", (time.time(), job))
            database.execute("DELETE FROM waits WHERE job = ?", (job,))
            database.execute(  # there is room for one job of this model now
                "UPDATE waits SET until = 0 WHERE job = (SELECT min(job) FROM waits, jobs AS waiting, jobs AS ended"
                " WHERE job = waiting.name AND ended.name = ? AND waiting.batch = ended.batch"
                " AND waiting.model IS ended.model AND waiting.provider IS NULL)",
                (job,),
            )
        return got

    def _keep_results(self, job: str, results: Sequence[tuple[int, LineResult, Work]]) -> int:
        """Keep some results of a job; return how many of them are the first for a prompt of the job."""
        got, good, stored, total = 0, 0, 0, Work()
        with self._transaction() as database:
            for number, result, work in results:
                changed = database.execute(
                    "UPDATE prompts SET state = 'answered', status = ?, response = ?, body = NULL"
                    " WHERE job = ? AND number = ? AND state = 'sent'",
                    (result.status, result.body, job, number),
                )
                if changed.rowcount:
                    got, total = got + 1, total + work
                    good += result.status in range(200, 300)
                    stored += result.status in range(200, 300) and work.cached_tokens + work.written_tokens > 0
            added = ", ".join(f"{name} = {name} + ?" for name in ("good", "stored", *_WORK))
            database.execute(f"UPDATE jobs SET {added} WHERE name = ?", (good, stored, *_figures(total), job))
        return got

    @_guarded
    def asked_at_once(self, batch_id: str, name: str, model: str | None, work: Work) -> None:
        """Keep the work of a prompt that was asked beside the jobs of a statement, and is booked already."""
        with self._transaction() as database:
            database.execute(
                f"INSERT OR REPLACE INTO jobs (name, batch, model, created, state, booked, {', '.join(_WORK)})"
                " VALUES (?, ?, ?, ?, 'ended', 1, ?, ?, ?, ?, ?)",
                (f"{batch_id}-{name}", batch_id, model, time.time(), *_figures(work)),
            )

    @_guarded
    def unbooked(self, batch_id: str) -> list[tuple[str, str | None, Work]]:
        """Return the names, models and works of the ended jobs whose spending is not booked yet."""
        with self._transaction() as database:
            rows = database.execute(
                f"SELECT name, model, {', '.join(_WORK)} FROM jobs WHERE batch = ? AND state = 'ended' AND NOT booked",
                (batch_id,),
            ).fetchall()
        return [(name, model, Work(*figures)) for name, model, *figures in rows]

    @_guarded
    def book(self, job: str) -> None:
        """Note that the spending of a job is booked."""
        with self._transaction() as database:
            database.execute("UPDATE jobs SET booked = 1 WHERE name = ?", (job,))

    @_guarded
    def held(self, batch_id: str) -> Held:
        """Return the most that the prompts of a statement in open jobs can take."""
        with self._transaction() as database:
            found = database.execute(
                "SELECT count(*), coalesce(sum(held_tokens), 0), coalesce(sum(held_cost), 0) FROM prompts"
                " WHERE batch = ? AND state = 'sent'",
                (batch_id,),
            ).fetchone()
        return Held(*found)

    @_guarded
    def counts(self, batch_id: str) -> Counts:
        """Return the counts of a statement's prompts."""
        with self._transaction() as database:
            found = database.execute(
                "SELECT count(*), coalesce(sum(state <> 'listed'), 0), coalesce(sum(state = 'answered'), 0),"
                " coalesce(sum(state = 'answered' AND status NOT BETWEEN 200 AND 299), 0) FROM prompts WHERE batch = ?",
                (batch_id,),
            ).fetchone()
        return Counts(*found)

    @_guarded
    def works(self, batch_id: str) -> dict[str | None, Work]:
        """Return the work that providers have done for a statement, by model."""
        sums = ", ".join(f"sum({name})" for name in _WORK)
        with self._transaction() as database:
            rows = database.execute(f"SELECT model, {sums} FROM jobs WHERE batch = ? GROUP BY model", (batch_id,))
            return {model: Work(*figures) for model, *figures in rows}

    @_guarded
    def provider_ids(self, batch_id: str) -> list[str]:
        """Return the provider's ids of all jobs of a statement."""
        return [job.provider for job in self.jobs(batch_id, ended=True) if job.provider is not None]

    @_guarded
    def ends(self, batch_id: str) -> float | None:
        """Return when the provider ends the jobs that still run, at the latest."""
        with self._transaction() as database:
            (found,) = database.execute(
                "SELECT max(ends) FROM jobs WHERE batch = ? AND state <> 'ended'", (batch_id,)
            ).fetchone()
        return None if found is None else float(found)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None


def _figures(work: Work) -> tuple[int, ...]:
    return work.calls, work.prompt_tokens, work.cached_tokens, work.completion_tokens, work.written_tokens


def _adopt(database: sqlite3.Connection, column: str, batch_id: str) -> None:
    """Copy the answers that awaited prompts got to the statements that wait; by their `batch` or their `owner`.

    A copy has cost nothing: the owner has paid.
    """
    database.execute(
        "INSERT INTO prompts (batch, number, digest, model, state, tries, note, status, response, scope)"
        " SELECT awaited.batch, (SELECT coalesce(max(number), 0) FROM prompts AS own WHERE own.batch = awaited.batch)"
        " + row_number() OVER (PARTITION BY awaited.batch ORDER BY awaited.digest), prompts.digest, model, 'answered',"
        " 1, note, status, response, scope"
        " FROM awaited JOIN prompts ON prompts.batch = owner AND prompts.digest = awaited.digest"
        f" WHERE awaited.{column} = ? AND prompts.state = 'answered' AND {_FINAL}"
        " ON CONFLICT (batch, digest) DO UPDATE SET state = 'answered', note = excluded.note, job = NULL,"
        " status = excluded.status, response = excluded.response",
        (batch_id,),
    )


def _batch(row: Sequence[Any]) -> Batch:
    id_, created, user, text, parameters, state, error, round_, rows, ended, prompts, price, immediate, paid = row
    told = json.loads(text)
    principal = told.pop("principal")
    who = Principal(**{**principal, "groups": frozenset(principal["groups"])})
    statement = DeferredStatement(**{**told, "path": tuple(told["path"])}, parameters=parameters, principal=who)
    forecast = Forecast(prompts, price, immediate)
    return Batch(id_, created, user, statement, state, error, round_, rows, ended, forecast, paid)
