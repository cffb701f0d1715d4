"""The record of one statement: its text and user, its progress, and the counters of its AI calls."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock
from typing import Any, Literal

import structlog

from flightllm.access.rights import Rights
from flightllm.access.store import DEFAULT_MODEL
from flightllm.common.principal import LOCAL
from flightllm.common.redaction import redacted_start
from flightllm.common.text import well_formed
from flightllm.errors import CancelledError, FlightLLMError
from flightllm.functions.call import MODEL, SEARCH
from flightllm.llm.engine import Completion, call_site
from flightllm.observe.model_calls import COUNTED, Durations, SiteFigures
from flightllm.observe.spans import NO_SPAN, Span

QueryStatus = Literal["planned", "running", "done", "failed", "cancelled"]
"""`planned` is a query whose rows no client has requested yet."""
MOST_TEXT = 16_384
"""Characters kept of the text of a query, a call or an error; the rest is cut off."""
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
    "estimated",
    "written_tokens",
    "packed",
)
"""The counters of a call site.

`prompts_expected` is the total number of prompts known to need an answer, for progress. Of the `calls` sent so far,
`answered` have returned. `repairs` of the calls asked again because the answer was not usable. Of the answers,
`estimated` have tokens that the endpoint did not report, or reported wrongly. `written_tokens` are prompt tokens that
the endpoint stored for later prompts, if it charges for that. `packed` are the prompts answered beyond one for each
answer: with several rows in a request, `answered` and `packed` together are the prompts with an answer.
"""

_OWN = ("query_id", "user", "session_id", "kind", "sql", "status", "error", "queued_seconds", "bytes")


class CancelToken(Event):
    """Set once a statement is asked to stop; `reason` is set if the stop counts as a failure."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: FlightLLMError | None = None
        self.query_id = ""
        """The id of the statement that it stops, once the statement has a record."""

    def because(self, reason: FlightLLMError | None) -> None:
        """Set it, with a reason; a cancellation is not a failure, so it leaves no reason."""
        if not self.is_set() and not isinstance(reason, CancelledError):
            self.reason = reason
        self.set()


@dataclass(slots=True)
class CallRecord:
    """The counters of one AI call site of one query. Safe to use from several threads."""

    function: str
    text: str
    _counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    operator: str = ""
    """The name in the plan of the operator that makes the calls."""
    backend: str = "model"
    """The backend that answers the calls, such as `model` for a language model."""
    model: str | None = None
    """The language model, where it is not the server's own."""
    input_rows: int = 0
    """Rows of its operator's input, once known; `tuples` are the distinct tuples of arguments in them."""
    tuples: int = 0
    _durations: Durations = field(default_factory=Durations)
    notes: dict[str, str] = field(default_factory=dict)
    """How its prompts are made: the chosen ordering and layout."""
    promise: dict[str, Any] | None = None
    """The certified figures of a call with a promise, once its rows are decided; otherwise None.

    `rows` are the rows that need an answer, in `prompts` distinct prompts. Of them, the model had answered `known` rows
    before, and `asked` rows (`asked_prompts` prompts) now. `errors` are asked rows that the proxy would have decided
    otherwise. `unseen_errors` bounds the rows that the proxy decided wrongly; `recall`, `precision` and `accuracy` are
    certain with probability 1 - `delta`. Figures that the call's kind does not have are missing. Of several
    filters with one promise, the first has the figures, where `prompts` are tuples of one prompt for each filter.
    """
    _lock: Lock = field(default_factory=Lock)
    site: str = field(init=False)
    """A name that is the same for the same function and text in each statement, and reveals no text."""

    def __post_init__(self) -> None:
        """Name the call site once, because metrics read the name at each scrape."""
        self.site = call_site(self.function, self.text)[:8]

    def note(self, input_rows: int, tuples: int, **notes: str) -> None:
        """Add rows and tuples of arguments that the operator has to process, and note how their prompts are made."""
        with self._lock:
            self.input_rows += input_rows
            self.tuples += tuples
            self.notes.update(notes)

    def add(self, **deltas: int) -> None:
        """Add to counters, e.g. `add(calls=1, prompt_tokens=300)`.

        Raises:
            KeyError: there is no counter with this name; see `COUNTERS`.
        """
        with self._lock:
            for name, delta in deltas.items():
                self._counts[name] += delta

    def sent(self, *, repair: bool) -> None:
        """Count a prompt that is sent, as `add` does, but in less time: there can be millions."""
        with self._lock:
            self._counts["calls"] += 1
            if repair:
                self._counts["repairs"] += 1

    def received(self, completion: Completion, seconds: float) -> None:
        """Count an answer, its tokens and the seconds that it took, as `add` does, but in less time."""
        counts = self._counts
        with self._lock:
            counts["answered"] += 1
            counts["prompt_tokens"] += completion.prompt_tokens
            counts["cached_tokens"] += completion.cached_tokens
            counts["completion_tokens"] += completion.completion_tokens
            counts["written_tokens"] += completion.written_tokens
            if completion.estimated:
                counts["estimated"] += 1
            self._durations.add(seconds)

    def figures(self) -> SiteFigures:
        """Return the figures for metrics."""
        with self._lock:
            counts = [self._counts[name] for name in COUNTED]
            durations, seconds = list(self._durations.counts), self._durations.seconds
        return SiteFigures(self.model or DEFAULT_MODEL, self.function, self.site, counts, durations, seconds)

    def counts(self) -> dict[str, int]:
        """Return all counters as they are now."""
        with self._lock:
            return dict(self._counts)


@dataclass(slots=True)
class QueryRecord:
    """The record of one query from its planning on; `rows` counts returned rows. Safe to use from several threads."""

    query_id: str
    sql: str
    cancelled: CancelToken = field(default_factory=CancelToken)
    """Set once the query is asked to stop; the code that runs the query polls it."""
    user: str = LOCAL.name
    session_id: str = ""
    kind: str = "query"
    span: Span = NO_SPAN
    price: Callable[[str | None, Mapping[str, int]], float | None] = lambda *_: None
    """Returns the cost of a model's counted work, if the model has a price."""
    ended: Callable[["QueryRecord"], None] = lambda _: None
    """Called once, when the record is closed."""
    rights: Rights | None = None
    """The user's privileges at planning time, if the query must keep them until its end."""
    status: QueryStatus = "planned"
    rows: int = 0
    bytes: int = 0
    queued_seconds: float = 0.0
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    """The texts that `warn` got."""
    operator: str = ""
    """The name of all operators of a further query of the statement; empty for their own names."""
    _started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    _started: float = field(default_factory=time.monotonic)
    _seconds: float | None = None
    _calls: list[CallRecord] = field(default_factory=list)
    _parts: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def begin(self) -> None:
        """Start the clock of a planned query; other queries do not change."""
        with self._lock:
            if self.status == "planned":
                self.status = "running"
                self._started_at, self._started = datetime.now(UTC), time.monotonic()

    def call_site(
        self, function: str, text: str, operator: str = "", backend: str = "model", model: str | None = None
    ) -> CallRecord:
        """Add a call site, in the order of the plan, and return its counters."""
        call = CallRecord(function, cut(text), operator=self.operator or operator, backend=backend, model=model)
        with self._lock:
            self._calls.append(call)
        return call

    def inner(self, sql: str, operator: str = "") -> "QueryRecord":
        """Return a record of a further query of the same statement: its calls count here, its rows and parts do not.

        With `operator`, this is the name of the operators that make its calls.
        """
        return QueryRecord(
            self.query_id,
            sql,
            self.cancelled,
            self.user,
            self.session_id,
            price=self.price,
            operator=operator or self.operator,
            _calls=self._calls,
            _lock=self._lock,
        )

    def add_rows(self, rows: int, size: int = 0) -> None:
        """Count rows for the client, and their bytes, so that progress can be seen."""
        with self._lock:
            self.rows += rows
            self.bytes += size

    def count_part(self, part: str, rows: int) -> None:
        """Count rows that a part of the plan returned, such as a stage or an AI operator."""
        with self._lock:
            self._parts[part] = self._parts.get(part, 0) + rows

    def part_rows(self) -> dict[str, int]:
        """Return the rows that each part of the plan has returned so far, by the part's name."""
        with self._lock:
            return dict(self._parts)

    def queued(self, seconds: float) -> None:
        """Add seconds that the query waited for its turn."""
        with self._lock:
            self.queued_seconds += seconds

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Bind the query's id, user and session to the log events inside."""
        with structlog.contextvars.bound_contextvars(
            query_id=self.query_id, user=self.user, session_id=self.session_id
        ):
            yield

    def finish(self, status: QueryStatus, rows: int | None = None, error: str | None = None) -> None:
        """Close the record. Only the first call has an effect, so a late cancel changes nothing.

        A query that was stopped with a reason counts as failed.
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
        """Add to the record's error what the query's result lacks; a failure replaces these texts."""
        with self._lock:
            if text not in self.warnings:
                self.warnings.append(text)
            self.error = cut("; ".join(self.warnings))

    def cancel(self, reason: FlightLLMError | None = None) -> None:
        """Ask the query to stop, as a failure if there is a reason; return at once."""
        self.cancelled.because(reason)

    @property
    def stopped(self) -> bool:
        """Return whether the query was asked to stop."""
        return self.cancelled.is_set()

    @property
    def reason(self) -> FlightLLMError | None:
        """Return the reason of the stop, if the stop counts as a failure."""
        return self.cancelled.reason

    @property
    def has_calls(self) -> bool:
        """Return whether the query has AI calls so far; cheap enough to ask for each batch."""
        return bool(self._calls)

    def row(self) -> dict[str, Any]:
        """Return the query's row of `system.queries`, with counters summed over its calls of models."""
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
        """Return the query's progress as JSON values, as clients get it along with the rows."""
        row = self.row()
        shown = {name: row[name] for name in ("query_id", "status", "rows", "failed_rows")}
        used = {name: row[name] for name in ("calls", "cache_hits", "prompt_tokens", "completion_tokens", "cost")}
        with self._lock:
            told = list(self.warnings)
        return {**shown, **calls_of(row), **used, "seconds": round(row["seconds"], 3), "warnings": told}

    def _elapsed(self) -> float:
        return 0.0 if self.status == "planned" else time.monotonic() - self._started

    def call_rows(self) -> list[dict[str, Any]]:
        """Return the query's rows of `system.ai_calls`, one per call site from 0 on, and how their prompts are made."""
        with self._lock:
            calls = list(self._calls)
        return [
            {
                "query_id": self.query_id,
                "user": self.user,
                "call_site": number,
                "site": call.site,
                "function": call.function,
                "text": call.text,
                **call.counts(),
                "operator": call.operator,
                "backend": call.backend,
                "model": call.model,
                "input_rows": call.input_rows,
                "tuples": call.tuples,
                "notes": dict(call.notes),
                "promise": call.promise,
            }
            for number, call in enumerate(calls)
        ]

    def model_figures(self) -> list[SiteFigures]:
        """Return the figures of the call sites that ask a model."""
        with self._lock:
            calls = list(self._calls)
        return [call.figures() for call in calls if call.backend == MODEL]


def sums(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up the counters of several call sites."""
    each = list(counts)
    return {name: sum(count[name] for count in each) for name in COUNTERS}


def calls_of(row: Mapping[str, Any]) -> dict[str, int]:
    """Return, from a row of `system.queries`, how many prompts have an answer and how many need an answer."""
    done = row["answered"] + row["packed"] + row["cache_hits"]
    return {"calls_done": done, "calls_expected": max(done, row["prompts_expected"])}


def _progress(counts: Mapping[str, int]) -> float | None:
    """Return the answered part of the prompts known to be needed; None if no prompt is known yet."""
    expected = counts["prompts_expected"]
    return min(1.0, (counts["answered"] + counts["packed"] + counts["cache_hits"]) / expected) if expected else None


def cut(text: str) -> str:
    """Return a text as the log keeps it: well-formed and cut to `MOST_TEXT` characters."""
    shown = redacted_start(well_formed(text), MOST_TEXT)
    return shown if len(text) <= MOST_TEXT else f"{shown}…"
