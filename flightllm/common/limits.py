"""Errors for exceeded limits, all worded in the same way, and a count of them for each limit."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from flightllm.errors import BusyError, FlightLLMError, LimitExceededError, StatementTimeoutError

_E = TypeVar("_E", bound=FlightLLMError)
LIMITS = (
    *("sql_bytes", "sql_terms", "statement_seconds", "timeout", "concurrent_queries", "queued_queries"),
    *("sessions", "result_bytes", "upload_bytes", "memory_bytes", "spill_bytes", "spill_folder", "budget"),
    "isolated_statements",
)
"""Every limit whose refusals are counted: keys of `[limits]`, the setting `flightllm.timeout`, and budgets."""


def over_limit(limit: str, value: float, found: str, instead: str) -> LimitExceededError:
    """Return the error for exceeding `[limits] LIMIT`; it says what was `found` and what to do `instead`."""
    return _error(LimitExceededError, limit, value, found, instead)


def busy(limit: str, value: float, found: str) -> BusyError:
    """Return the error for a request that the server has no room for now."""
    return _error(BusyError, limit, value, found, "try again later")


def _error(kind: type[_E], limit: str, value: float, found: str, instead: str) -> _E:
    most = f"[limits] {limit} = {_number(value)} is the most"
    error = kind(f"{found}; {most}: {instead}, or raise it in the server's configuration")
    error.limit = limit
    return error


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a statement can run; with `seconds` None there is no limit."""

    seconds: float | None = None
    own: bool = False
    """True if the session set the limit, false if the server did."""

    @classmethod
    def of(cls, server: float | None, session: float | None) -> "TimeLimit":
        """Return the smaller of the server's and the session's limit."""
        if session is None or (server is not None and server <= session):
            return cls(server)
        return cls(session, own=True)

    def start(self) -> "Deadline":
        """Return the deadline of a statement that starts now."""
        return Deadline(self, None if self.seconds is None else time.monotonic() + self.seconds)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time at which a statement must have ended."""

    limit: TimeLimit = TimeLimit()
    at: float | None = None
    """The time of the monotonic clock, in seconds; None for no deadline."""

    @property
    def over(self) -> bool:
        """Return whether the time is up."""
        return self.at is not None and time.monotonic() >= self.at

    def error(self) -> StatementTimeoutError:
        """Return the error that the client gets once the deadline has passed."""
        seconds = self.limit.seconds or 0.0
        if not self.limit.own:
            found = "the statement took too long and was stopped"
            return _error(StatementTimeoutError, "statement_seconds", seconds, found, "ask for less at once")
        error = StatementTimeoutError(
            f"the statement took longer than its session's setting flightllm.timeout = {_number(seconds)} seconds"
            " and was stopped: SET flightllm.timeout to more, or to 'none'"
        )
        error.limit = "timeout"
        return error


class Sum:
    """A counter that only grows. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.value = 0

    def add(self, value: int) -> None:
        """Add to the counter."""
        with self._lock:
            self.value += value


class Refusals:
    """How many requests each limit refused. Safe to use from several threads."""

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(LIMITS, 0))
        self._lock = Lock()

    def note(self, error: BaseException) -> None:
        """Count an error, if an exceeded limit caused it."""
        if isinstance(error, FlightLLMError) and error.limit:
            with self._lock:
                self._counts[error.limit] += 1

    def counts(self) -> Mapping[str, int]:
        """Return the count of each limit, including zeros."""
        with self._lock:
            return dict(self._counts)
