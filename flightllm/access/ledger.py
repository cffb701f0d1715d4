"""What users spend on AI calls in a day, kept to across their queries and restarts."""

import threading
import time
from dataclasses import dataclass, field

import structlog

from flightllm.access.store import AccessStore, Allowance
from flightllm.access.tables import today
from flightllm.errors import ConfigError

_log = structlog.get_logger(__name__)
_WRITE_SECONDS = 1.0
"""Spending reaches the disk so often, and at the end of each query: a crash forgets no more."""


@dataclass(slots=True)
class _Sum:
    """Calls, tokens and cost."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def add(self, calls: int, tokens: int, cost: float) -> None:
        self.calls += calls
        self.tokens += tokens
        self.cost += cost


@dataclass(slots=True)
class _Day:
    """What a user has spent or may still be spending, and what of it is not on disk yet."""

    date: str
    held: _Sum
    unwritten: _Sum = field(default_factory=_Sum)


class Ledger:
    """One user's spending. Shared by its queries; safe to use from several threads."""

    def __init__(self, store: AccessStore, user: str) -> None:
        self._store = store
        self._user = user
        self._lock = threading.Lock()
        self._day: _Day | None = None
        self._written = time.monotonic()
        self.allowance = Allowance()
        """As `look` found it: requests ask too often to read it each time."""

    def look(self) -> None:
        """Read what the user may spend a day, as of now."""
        user = self._store.snapshot().users.get(self._user)
        self.allowance = user.allowance if user else Allowance()

    @property
    def refusal(self) -> str | None:
        """Return why nothing more may be spent today, or None while something may."""
        allowance = self.allowance
        with self._lock:
            held = self._today().held
        return _above(self._user, (held.calls + 1, held.tokens + 1, held.cost), allowance)

    def take(self, calls: int, tokens: int, cost: float) -> str | None:
        """Hold what a request may take; return why not where that is more than the day has left."""
        allowance = self.allowance
        with self._lock:
            held = self._today().held
            after = (held.calls + calls, held.tokens + tokens, held.cost + cost)
            above = _above(self._user, after, allowance)
            if above is None:
                held.add(calls, tokens, cost)
        return above

    def settle(
        self, date: str, tokens: int, cost: float, calls: int = 1, *, held_tokens: int, held_cost: float
    ) -> None:
        """Count what a request took, on the day that it ends, in place of what was held for it on the day `date`.

        `calls` is 0 for one that was never sent.
        """
        with self._lock:
            day = self._today()
            if date == day.date:
                day.held.add(calls - 1, tokens - held_tokens, cost - held_cost)
            else:
                day.held.add(calls, tokens, cost)
            day.unwritten.add(calls, tokens, cost)
            if time.monotonic() - self._written > _WRITE_SECONDS:
                self._write(day)

    def write(self) -> None:
        """Bring what was spent to disk."""
        with self._lock:
            if self._day is not None:
                self._write(self._day)

    def _today(self) -> _Day:
        date = today()
        if self._day is None or self._day.date != date:
            if self._day is not None:
                self._write(self._day)
            self._day = _Day(date, _Sum(*self._store.spent(self._user, date)))
        return self._day

    def _write(self, day: _Day) -> None:
        """Bring a day's spending to disk; what cannot be written now is later."""
        self._written = time.monotonic()
        spent = day.unwritten
        if not spent.calls:
            return
        try:
            self._store.add_spent(self._user, day.date, spent.calls, spent.tokens, spent.cost)
        except ConfigError as error:
            _log.warning("spending not written yet", user=self._user, error=str(error))
        else:
            day.unwritten = _Sum()


def _above(user: str, spent: tuple[int, int, float], allowance: Allowance) -> str | None:
    """Return which of a day's limits is exceeded, or None."""
    found = allowance.exceeded(*spent)
    if found is None:
        return None
    name, _, most = found
    return f"{user!r} may spend {most:,} {name} a day (UTC): an admin raises that by `flightllm user set`"
