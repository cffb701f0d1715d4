"""What is refused because of a limit: one way to say it, and a count of how often."""

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
"""Every limit that refusals are counted of: keys of `[limits]`, the setting `flightllm.timeout`, and budgets."""


def over_limit(limit: str, value: float, found: str, instead: str) -> LimitExceededError:
    """Return the error for going over `[limits] LIMIT`: what was `found`, the limit, and what to do `instead`."""
    return _error(LimitExceededError, limit, value, found, instead)


def busy(limit: str, value: float, found: str) -> BusyError:
    """Return the error for a request that has no room now."""
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
    """How long a statement may run: None, as long as it takes."""

    seconds: float | None = None
    own: bool = False
    """It is the session's own setting, not the server's."""

    @classmethod
    def of(cls, server: float | None, session: float | None) -> "TimeLimit":
        """Return the smaller of the server's limit and a session's own."""
        if session is None or (server is not None and server <= session):
            return cls(server)
        return cls(session, own=True)

    def start(self) -> "Deadline":
        """Return the deadline of something that begins now."""
        return Deadline(self, None if self.seconds is None else time.monotonic() + self.seconds)


@dataclass(frozen=True, slots=True)
class Deadline:
    """When something that began must be over."""

    limit: TimeLimit = TimeLimit()
    at: float | None = None
    """By the monotonic clock."""

    @property
    def over(self) -> bool:
        """Tell whether the time is up."""
        return self.at is not None and time.monotonic() >= self.at

    def error(self) -> StatementTimeoutError:
        """Return what the client is told once it is over."""
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
    """A number that grows. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.value = 0

    def add(self, value: int) -> None:
        """Let it grow."""
        with self._lock:
            self.value += value


class Refusals:
    """How often each limit refused something. Safe to use from several threads."""

    def __init__(self) -> None:
        self._counts = Counter(dict.fromkeys(LIMITS, 0))
        self._lock = Lock()

    def note(self, error: BaseException) -> None:
        """Count an error, if it is about a limit."""
        if isinstance(error, FlightLLMError) and error.limit:
            with self._lock:
                self._counts[error.limit] += 1

    def counts(self) -> Mapping[str, int]:
        """Return the counts by limit, those at 0 too."""
        with self._lock:
            return dict(self._counts)
