"""What the server did: a bounded record of queries and their AI calls, served as the tables of the schema `system`."""

import secrets
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Event, Lock
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa

from flightllm.ai import SEARCH
from flightllm.errors import NotFoundError

QueryStatus = Literal["planned", "running", "done", "failed", "cancelled"]
"""`planned` is a query whose rows nobody has asked for yet."""
_MOST_TEXT = 16_384
"""Characters kept of a query's text, of a call's and of an error; the rest is cut off."""
COUNTERS = (
    "rows",
    "prompts_expected",
    "distinct_prompts",
    "calls",
    "cache_hits",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "failed_rows",
)
"""What a call site counts; `prompts_expected` is the number of prompts known to be answered in all, for progress."""

_COUNTED = [(name, pa.int64()) for name in COUNTERS]
_QUERIES = pa.schema(
    [
        ("query_id", pa.string()),
        ("sql", pa.string()),
        ("status", pa.string()),
        ("started_at", pa.timestamp("us", tz="UTC")),
        ("seconds", pa.float64()),
        *_COUNTED,
        ("error", pa.string()),
    ]
)
_AI_CALLS = pa.schema(
    [
        ("query_id", pa.string()),
        ("call_site", pa.int32()),
        ("function", pa.string()),
        ("text", pa.string()),
        ("model", pa.string()),
        *_COUNTED,
    ]
)


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
    cancelled: Event = field(default_factory=Event)
    """Set once somebody asked the query to stop; whoever runs it polls this."""
    status: QueryStatus = "planned"
    rows: int = 0
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

    @property
    def finished(self) -> bool:
        """Tell whether the record is closed."""
        return self._seconds is not None

    def call_site(
        self, function: str, text: str, operator: str = "", backend: str = "model", model: str | None = None
    ) -> CallRecord:
        """Add a call site, in the order of the plan, and return its counters."""
        call = CallRecord(function, _cut(text), operator=operator, backend=backend, model=model)
        with self._lock:
            self._calls.append(call)
        return call

    def add_rows(self, rows: int) -> None:
        """Count rows sent to the client, so that progress can be seen."""
        with self._lock:
            self.rows += rows

    def finish(self, status: QueryStatus, rows: int | None = None, error: str | None = None) -> None:
        """Close the record; the first call counts, so that a late cancel changes nothing."""
        with self._lock:
            if self._seconds is not None:
                return
            self._seconds = self._elapsed()
            self.status = status
            self.error = self.error if error is None else _cut(error)
            self.rows = self.rows if rows is None else rows

    def warn(self, text: str) -> None:
        """Say in the record's error what the query lacks; a failure takes its place."""
        with self._lock:
            self.error = _cut(text)

    def cancel(self) -> None:
        """Ask the query to stop; returns at once."""
        self.cancelled.set()

    def row(self) -> dict[str, Any]:
        """Return the query's row of `system.queries`, its counters summed over its calls of models."""
        with self._lock:
            seconds = self._elapsed() if self._seconds is None else self._seconds
            own = {"query_id": self.query_id, "sql": self.sql, "status": self.status, "error": self.error}
            calls, rows = [call.counts() for call in self._calls if call.backend != SEARCH], self.rows
        totals = {name: sum(counts[name] for counts in calls) for name in COUNTERS}
        return {**own, "started_at": self._started_at, "seconds": seconds, **totals, "rows": rows}

    def progress(self) -> dict[str, Any]:
        """Return how far the query is, as values of JSON: what clients are sent along with its rows."""
        row = self.row()
        shown = {name: row[name] for name in ("query_id", "status", "rows", "failed_rows")}
        answered = row["calls"] + row["cache_hits"]
        return {
            **shown,
            "calls_done": answered,
            "calls_expected": max(answered, row["prompts_expected"]),
            "seconds": round(row["seconds"], 3),
        }

    def _elapsed(self) -> float:
        return 0.0 if self.status == "planned" else time.monotonic() - self._started

    def call_rows(self) -> list[dict[str, Any]]:
        """Return the query's rows of `system.ai_calls`, one per call site from 0 on, and how its prompts are made."""
        with self._lock:
            calls = list(self._calls)
        return [
            {
                "query_id": self.query_id,
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


class QueryLog:
    """The open queries and the last `history` finished ones. Safe to use from several threads."""

    def __init__(self, history: int = 1_000) -> None:
        self._open: dict[str, QueryRecord] = {}
        self._finished: deque[QueryRecord] = deque(maxlen=history)
        self._lock = Lock()

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schemas of the system tables by name."""
        return MappingProxyType({"queries": _QUERIES, "ai_calls": _AI_CALLS})

    def plan(self, sql: str, cancelled: Event | None = None) -> QueryRecord:
        """Open the record of a query under a new id; its clock waits for `begin`.

        Setting `cancelled`, where given, asks the query to stop.
        """
        record = QueryRecord(secrets.token_hex(8), _cut(sql), cancelled or Event())
        with self._lock:
            self._settle()
            self._open[record.query_id] = record
        return record

    def start(self, sql: str, cancelled: Event | None = None) -> QueryRecord:
        """Open the record of a query that runs from now on; see `plan`."""
        record = self.plan(sql, cancelled)
        record.begin()
        return record

    def running(self) -> list[QueryRecord]:
        """Return the queries that have not finished, those only planned included, oldest first."""
        with self._lock:
            self._settle()
            return list(self._open.values())

    def get(self, query_id: str) -> QueryRecord:
        """Return a query by its id.

        Raises:
            NotFoundError: no such query is open or remembered.
        """
        for record in self._all():
            if record.query_id == query_id:
                return record
        raise NotFoundError(f"there is no query {query_id!r}; see SELECT query_id FROM system.queries")

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a system table as they are now, oldest query first.

        Raises:
            NotFoundError: there is no such system table.
        """
        if name == "queries":
            return pa.Table.from_pylist([record.row() for record in self._all()], schema=_QUERIES)
        if name == "ai_calls":
            return pa.Table.from_pylist([row for record in self._all() for row in record.call_rows()], schema=_AI_CALLS)
        raise NotFoundError(f"there is no system table {name!r}")

    def _all(self) -> list[QueryRecord]:
        with self._lock:
            self._settle()
            return [*self._finished, *self._open.values()]

    def _settle(self) -> None:
        """Move what has finished to the bounded history; the caller holds the lock."""
        for record in [record for record in self._open.values() if record.finished]:
            del self._open[record.query_id]
            self._finished.append(record)


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
