"""The record of one statement: what it is, how far it is, and what its AI calls counted."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock
from typing import Any, Literal

import structlog

from flightllm.access.rights import Rights
from flightllm.common.principal import LOCAL
from flightllm.common.text import well_formed
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.functions.call import MODEL, SEARCH
from flightllm.observe.spans import NO_SPAN, Span

QueryStatus = Literal["planned", "running", "done", "failed", "cancelled"]
"""`planned` is a query whose rows nobody has asked for yet."""
_MOST_TEXT = 16_384
"""Characters kept of a query's text, of a call's and of an error; the rest is cut off."""
COUNTERS = (
    "rows",
    "prompts_expected",
    "distinct_prompts",
    "calls",
    "answered",
    "cache_hits",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "failed_rows",
    "repairs",
)
"""What a call site counts; `prompts_expected` is the number of prompts known to be answered in all, for progress.

Of the `calls` sent so far, `answered` have come back; `repairs` of them asked again for an answer that was unusable.
"""

_OWN = ("query_id", "user", "session_id", "kind", "sql", "status", "error", "queued_seconds", "bytes")


class Stop(Event):
    """Set once somebody asked a statement to stop; `reason` is why, where that makes it a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: FlightLLMError | None = None

    def because(self, reason: FlightLLMError | None) -> None:
        """Set it; a cancellation is no failure."""
        if not self.is_set() and not isinstance(reason, CancelledError):
            self.reason = reason
        self.set()


@dataclass(slots=True)
class CallRecord:
    """One AI call site of one query. Counting is safe from several threads."""

    function: str
    text: str
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    operator: str = ""
    """The operator that it is a call of, as the plan names it."""
    backend: str = "model"
    """Who answers it."""
    model: str | None = None
    """Which language model, where it is not the server's own."""
    input_rows: int = 0
    """Rows that its operator has, once that is known, and the tuples of arguments in them to go through."""
    tuples: int = 0
    notes: dict[str, str] = field(default_factory=dict)
    """How its prompts are made: the ordering and the layout chosen."""
    _lock: Lock = field(default_factory=Lock)

    def note(self, input_rows: int, tuples: int, **notes: str) -> None:
        """Say that so many more rows and tuples are to be gone through, and how their prompts are made."""
        with self._lock:
            self.input_rows += input_rows
            self.tuples += tuples
            self.notes.update(notes)

    def add(self, **deltas: int) -> None:
        """Add to counters, e.g. `add(calls=1, prompt_tokens=300)`.

        Raises:
            KeyError: there is no such counter; see `COUNTERS`.
        """
        with self._lock:
            for name, delta in deltas.items():
                self._counts[name] += delta

    def counts(self) -> dict[str, int]:
        """Return all counters as they are now."""
        with self._lock:
            return dict(self._counts)


@dataclass(slots=True)
class QueryRecord:
    """One query from its planning on; `rows` counts what it returned. Safe to use from several threads."""

    query_id: str
    sql: str
    cancelled: Stop = field(default_factory=Stop)
    """Set once somebody asked the query to stop; whoever runs it polls this."""
    user: str = LOCAL.name
    session_id: str = ""
    kind: str = "query"
    span: Span = NO_SPAN
    price: Callable[[str | None, Mapping[str, int]], float | None] = lambda *_: None
    """Tells what the counted work of a model costs, where it has a price."""
    ended: Callable[["QueryRecord"], None] = lambda _: None
    """Called once, when the record is closed."""
    rights: Rights | None = None
    """What its user might when it was planned, where that is to hold until its end."""
    status: QueryStatus = "planned"
    rows: int = 0
    bytes: int = 0
    queued_seconds: float = 0.0
    error: str | None = None
    _started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _started: float = field(default_factory=time.monotonic)
    _seconds: float | None = None
    _calls: list[CallRecord] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Start the clock of a planned query; any other stays as it is."""
        with self._lock:
            if self.status == "planned":
                self.status = "running"
                self._started_at, self._started = datetime.now(UTC), time.monotonic()

    def call_site(
        self, function: str, text: str, operator: str = "", backend: str = "model", model: str | None = None
    ) -> CallRecord:
        """Add a call site, in the order of the plan, and return its counters."""
        call = CallRecord(function, cut(text), operator=operator, backend=backend, model=model)
        with self._lock:
            self._calls.append(call)
        return call

    def add_rows(self, rows: int, size: int = 0) -> None:
        """Count rows for the client, and their bytes, so that progress can be seen."""
        with self._lock:
            self.rows += rows
            self.bytes += size

    def queued(self, seconds: float) -> None:
        """Say that the query waited for its turn, once more or the first time."""
        with self._lock:
            self.queued_seconds += seconds

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Bind to log events inside whose they are."""
        with structlog.contextvars.bound_contextvars(
            query_id=self.query_id, user=self.user, session_id=self.session_id
        ):
            yield

    def finish(self, status: QueryStatus, rows: int | None = None, error: str | None = None) -> None:
        """Close the record; the first call counts, so that a late cancel changes nothing.

        What was stopped for a reason has failed.
        """
        if status == "cancelled" and (reason := self.reason) is not None:
            status, error = "failed", str(reason)
        with self._lock:
            if self._seconds is not None:
                return
            self._seconds = self._elapsed()
            self.status = status
            self.error = self.error if error is None else cut(error)
            self.rows = self.rows if rows is None else rows
        self.ended(self)

    def warn(self, text: str) -> None:
        """Say in the record's error what the query lacks; a failure takes its place."""
        with self._lock:
            self.error = cut(text)

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Ask the query to stop, as a failure where there is a reason; returns at once."""
        self.cancelled.because(reason)

    @property
    def stopped(self) -> bool:
        """Tell whether somebody asked it to stop."""
        return self.cancelled.is_set()

    @property
    def reason(self) -> FlightLLMError | None:
        """Return why it was stopped, where that makes it a failure."""
        return self.cancelled.reason

    def row(self) -> dict[str, Any]:
        """Return the query's row of `system.queries`, its counters summed over its calls of models."""
        with self._lock:
            seconds = self._elapsed() if self._seconds is None else self._seconds
            own = {
                **{name: getattr(self, name) for name in _OWN},
                "started_at": self._started_at,
                "seconds": seconds,
            }
            calls, rows = list(self._calls), self.rows
        totals = sums(call.counts() for call in calls if call.backend != SEARCH)
        costs = [self.price(call.model, call.counts()) for call in calls if call.backend == MODEL]
        known = [cost for cost in costs or [self.price(None, sums(()))] if cost is not None]
        cost = sum(known) if len(known) == max(1, len(costs)) else None
        progress = 1.0 if own["status"] == "done" else _progress(totals)
        return {**own, **totals, "rows": rows, "progress": progress, "cost": cost}

    def progress(self) -> dict[str, Any]:
        """Return how far the query is, as values of JSON: what clients are sent along with its rows."""
        row = self.row()
        shown = {name: row[name] for name in ("query_id", "status", "rows", "failed_rows")}
        return {**shown, **calls_of(row), "seconds": round(row["seconds"], 3)}

    def _elapsed(self) -> float:
        return 0.0 if self.status == "planned" else time.monotonic() - self._started

    def call_rows(self) -> list[dict[str, Any]]:
        """Return the query's rows of `system.ai_calls`, one per call site from 0 on, and how its prompts are made."""
        with self._lock:
            calls = list(self._calls)
        return [
            {
                "query_id": self.query_id,
                "user": self.user,
                "call_site": site,
                "function": call.function,
                "text": call.text,
                **call.counts(),
                "operator": call.operator,
                "backend": call.backend,
                "model": call.model,
                "input_rows": call.input_rows,
                "tuples": call.tuples,
                "notes": dict(call.notes),
            }
            for site, call in enumerate(calls)
        ]


def sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up what several call sites counted."""
    each = list(counts)
    return {name: sum(count[name] for count in each) for name in COUNTERS}


def calls_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return of a row of `system.queries` how many prompts have an answer, and how many are known to need one."""
    done = row["answered"] + row["cache_hits"]
    return {"calls_done": done, "calls_expected": max(done, row["prompts_expected"])}


def _progress(counts: Mapping[str, int]) -> float | None:
    """Return which part of the prompts known to be needed has an answer; None where none is known to be."""
    expected = counts["prompts_expected"]
    return min(1.0, (counts["answered"] + counts["cache_hits"]) / expected) if expected else None


def cut(text: str) -> str:
    """Return a text as it is remembered."""
    text = well_formed(text)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
