"""A bounded log of queries and their AI calls, and the totals of all statements so far, for metrics.

The tables `system.queries` and `system.ai_calls` show the log.
"""

import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import structlog

from flightllm.access.rights import Rights
from flightllm.common.principal import LOCAL
from flightllm.errors import NotFoundError
from flightllm.observe.model_calls import Durations, ModelCalls, SiteFigures
from flightllm.observe.query_record import COUNTERS, MOST_TEXT, CancelToken, QueryRecord, cut
from flightllm.observe.spans import NO_SPANS, Spans
from flightllm.observe.statement_texts import shown_statement

_log = structlog.get_logger(__name__)
_COUNTED = [(name, pa.int64()) for name in COUNTERS]
_QUERIES = pa.schema(
    [
        ("query_id", pa.string()),
        ("user", pa.string()),
        ("session_id", pa.string()),
        ("kind", pa.string()),
        ("sql", pa.string()),
        ("status", pa.string()),
        ("started_at", pa.timestamp("us", tz="UTC")),
        ("queued_seconds", pa.float64()),
        ("seconds", pa.float64()),
        ("progress", pa.float64()),
        *_COUNTED,
        ("bytes", pa.int64()),
        ("cost", pa.float64()),
        ("error", pa.string()),
    ]
)
_PROMISE = pa.struct(
    [
        ("targets", pa.string()),
        ("proxy", pa.string()),
        ("held", pa.bool_()),
        ("useless", pa.bool_()),
        ("reason", pa.string()),
        ("delta", pa.float64()),
        *[(name, pa.float64()) for name in ("recall", "precision", "accuracy")],
        *[(name, pa.int64()) for name in ("rows", "prompts", "known", "asked")],
        *[(name, pa.int64()) for name in ("asked_prompts", "taught_prompts", "sampled_prompts")],
        *[(name, pa.int64()) for name in ("accepted", "rejected", "unanswered")],
        *[(name, pa.int64()) for name in ("errors", "false_rejects", "false_accepts")],
        *[(name, pa.int64()) for name in ("unseen_errors", "unseen_false_rejects", "unseen_false_accepts")],
    ]
)
"""The certified figures of a call with a promise, see `CallRecord.promise`."""
_AI_CALLS = pa.schema(
    [
        ("query_id", pa.string()),
        ("user", pa.string()),
        ("call_site", pa.int32()),
        ("site", pa.string()),
        ("function", pa.string()),
        ("text", pa.string()),
        ("model", pa.string()),
        *_COUNTED,
        ("promise", _PROMISE),
    ]
)
_NOT_LOGGED = frozenset({"sql", "error", "started_at", "progress"})
"""Columns with texts, which can contain values of rows."""
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0)
"""Upper limits of the duration buckets; one more bucket counts durations above all limits."""
SUMMED = (
    *("rows", "bytes", "calls", "answered", "cache_hits", "failed_rows"),
    *("prompt_tokens", "cached_tokens", "completion_tokens"),
)
"""The columns of `system.queries` that are summed."""


@dataclass(slots=True)
class Totals:
    """Statements by kind and status, their durations, and sums of their counters. Not safe from several threads."""

    statements: Counter[tuple[str, str]] = field(default_factory=Counter)
    durations: Durations = field(default_factory=lambda: Durations(SECONDS))
    cost: float = 0.0
    sums: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SUMMED, 0)))
    model_calls: ModelCalls = field(default_factory=ModelCalls)

    def finished(self, row: Mapping[str, Any], calls: Iterable[SiteFigures]) -> None:
        """Add a statement that has ended, by its row of `system.queries` and its calls of models."""
        self.statements[row["kind"], row["status"]] += 1
        self.durations.add(row["seconds"])
        self.counted(row, calls)

    def counted(self, row: Mapping[str, Any], calls: Iterable[SiteFigures]) -> None:
        """Add the counters of a statement so far."""
        self.model_calls.add(calls)
        self.cost += row["cost"] or 0.0
        for name in SUMMED:
            self.sums[name] += row[name]

    def copy(self) -> "Totals":
        """Return a copy, to add further statements to."""
        statements, calls = self.statements.copy(), self.model_calls.copy()
        return Totals(statements, self.durations.copy(), self.cost, self.sums.copy(), calls)


class QueryLog:
    """The open queries and the last `history` finished ones. Safe to use from several threads."""

    def __init__(
        self,
        history: int = 1_000,
        *,
        spans: Spans = NO_SPANS,
        price: Callable[[str | None, Mapping[str, int]], float | None] = lambda *_: None,
    ) -> None:
        self._spans = spans
        self._price = price
        self._open: dict[str, QueryRecord] = {}
        self._finished: deque[QueryRecord] = deque(maxlen=history)
        self._ended: deque[QueryRecord] = deque()
        """Records that are closed but still among the open ones."""
        self._totals = Totals()
        self._lock = Lock()

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Return the schemas of the system tables by name."""
        return MappingProxyType({"queries": _QUERIES, "ai_calls": _AI_CALLS})

    def plan(
        self,
        sql: str,
        cancelled: CancelToken | None = None,
        *,
        user: str = LOCAL.name,
        session_id: str = "",
        kind: str = "query",
        since: int | None = None,
        rights: Rights | None = None,
    ) -> QueryRecord:
        """Open the record of a query with a new id; its clock starts with `begin`.

        To ask the query to stop, set `cancelled`. `since` is the start of work for the query, for its trace, in Unix
        nanoseconds. `rights` are the privileges with which it is planned.
        """
        query_id = secrets.token_hex(8)
        span = self._spans.statement(since, query_id=query_id, user=user, session_id=session_id, kind=kind)
        token = cancelled or CancelToken()
        token.query_id = query_id
        record = QueryRecord(
            query_id,
            cut(shown_statement(sql, MOST_TEXT)),
            token,
            user,
            session_id,
            kind,
            span,
            self._price,
            self._end,
            rights,
        )
        with self._lock:
            self._settle()
            self._open[record.query_id] = record
        return record

    def start(
        self,
        sql: str,
        cancelled: CancelToken | None = None,
        *,
        user: str = LOCAL.name,
        session_id: str = "",
        kind: str = "query",
        rights: Rights | None = None,
    ) -> QueryRecord:
        """Open the record of a query that runs from now on; see `plan`."""
        record = self.plan(sql, cancelled, user=user, session_id=session_id, kind=kind, rights=rights)
        record.begin()
        return record

    def totals(self) -> Totals:
        """Return the totals of all statements so far, including the counts of statements that still run."""
        with self._lock:
            self._settle()
            running = [(record.row(), record.model_figures()) for record in self._open.values()]
            for _, figures in running:
                self._totals.model_calls.reserve(figures)
            totals = self._totals.copy()
        for row, figures in running:
            totals.counted(row, figures)
        return totals

    @property
    def spans(self) -> Spans:
        """Return the object that starts traces."""
        return self._spans

    def close(self) -> None:
        """Send the traces that are not sent yet. Idempotent."""
        self._spans.close()

    def running(self) -> list[QueryRecord]:
        """Return the queries that have not finished, including those that are only planned, oldest first."""
        with self._lock:
            self._settle()
            return list(self._open.values())

    def get(self, query_id: str) -> QueryRecord:
        """Return a query by its id.

        Raises:
            NotFoundError: no open or remembered query has this id.
        """
        for record in self._all():
            if record.query_id == query_id:
                return record
        raise NotFoundError(f"there is no query {query_id!r}; see SELECT query_id FROM system.queries")

    def snapshot(self, name: str) -> pa.Table:
        """Return the rows of a system table as they are now, oldest query first.

        Raises:
            NotFoundError: there is no system table with this name.
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

    def _end(self, record: QueryRecord) -> None:
        """Note that a record is closed. Takes no lock: garbage collection of a generator can close it in any thread."""
        self._ended.append(record)
        _report(record)

    def _settle(self) -> None:
        """Move the finished records to the bounded history; the caller holds the lock."""
        while self._ended:
            record = self._ended.popleft()
            del self._open[record.query_id]
            self._finished.append(record)
            self._totals.finished(record.row(), record.model_figures())


def _report(record: QueryRecord) -> None:
    """Log the figures of a statement that has ended."""
    row = {name: value for name, value in record.row().items() if name not in _NOT_LOGGED}
    figures = {name: row[name] for name in ("status", "kind", "rows", "bytes", "queued_seconds", *COUNTERS)}
    record.span.end(record.status if record.status in {"failed", "cancelled"} else None, **figures)
    if row["failed_rows"]:
        _log.warning("rows without an answer", query_id=record.query_id, failed_rows=row["failed_rows"])
    _log.info("query done", **row)
