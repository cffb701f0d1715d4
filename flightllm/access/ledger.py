"""Users' daily spending on AI calls, limited across their queries and across restarts."""

import threading
import time
from dataclasses import dataclass, field

import structlog

from flightllm.access.store import AccessStore, Allowance
from flightllm.access.tables import today
from flightllm.errors import ConfigError

_log = structlog.get_logger(__name__)
_WRITE_SECONDS = 1.0
"""Spending is written this often, and at the end of each query; a crash loses at most this much."""


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
    """A user's spending and reservations of a day, and the part that is not on disk yet."""

    date: str
    held: _Sum
    unwritten: _Sum = field(default_factory=_Sum)


class Ledger:
    """One user's spending, shared by its queries. Safe to use from several threads."""

    def __init__(self, store: AccessStore, user: str) -> None:
        self._store = store
        self._user = user
        self._lock = threading.Lock()
        self._day: _Day | None = None
        self._kept: dict[str, _Sum] = {}
        """The most that each deferred statement can still take, by name; it belongs to no day."""
        self._written = time.monotonic()
        self.allowance = Allowance()
        """The user's limits when `look` was last called; reading them at each request would be too slow."""

    def look(self) -> None:
        """Read the user's present daily limits."""
        user = self._store.snapshot().users.get(self._user)
        self.allowance = user.allowance if user else Allowance()

    @property
    def refusal(self) -> str | None:
        """Return why the user can spend nothing more today, or None while something is left."""
        allowance = self.allowance
        with self._lock:
            held = self._held(self._today())
        return _above(self._user, (held.calls + 1, held.tokens + 1, held.cost), allowance)

    def keep(self, name: str, calls: int, tokens: int, cost: float) -> None:
        """Reserve what a deferred statement can still take, in place of what it could take before.

        The reservation stays from day to day, until it is replaced by one of nothing.
        """
        with self._lock:
            self._kept[name] = _Sum(calls, tokens, cost)
            if not calls:
                del self._kept[name]

    def book(self, calls: int, tokens: int, cost: float) -> None:
        """Count real spending of a deferred statement today, and write it to disk."""
        with self._lock:
            day = self._today()
            day.held.add(calls, tokens, cost)
            day.unwritten.add(calls, tokens, cost)
            self._write(day)

    def take(self, calls: int, tokens: int, cost: float) -> str | None:
        """Reserve the most that a request can cost; return a refusal where the day's budget is too small."""
        allowance = self.allowance
        with self._lock:
            day = self._today()
            held = self._held(day)
            after = (held.calls + calls, held.tokens + tokens, held.cost + cost)
            above = _above(self._user, after, allowance)
            if above is None:
                day.held.add(calls, tokens, cost)
        return above

    def settle(
        self, date: str, tokens: int, cost: float, calls: int = 1, *, held_tokens: int, held_cost: float
    ) -> None:
        """Replace a request's reservation of day `date` by its real cost, on the day when it ends.

        `calls` is 0 for a request that was never sent.
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

    def take_back(self, date: str, calls: int, tokens: int, cost: float) -> None:
        """Undo a reservation of day `date`, for a request that does not leave."""
        with self._lock:
            day = self._today()
            if date == day.date:
                day.held.add(-calls, -tokens, -cost)
            day.unwritten.add(-calls, 0, 0.0)

    def write(self) -> None:
        """Write the spending to disk."""
        with self._lock:
            if self._day is not None:
                self._write(self._day)

    def _held(self, day: _Day) -> _Sum:
        """Return what the user has spent and reserved on a day, with what deferred statements can still take."""
        if not self._kept:
            return day.held
        sums = [day.held, *self._kept.values()]
        return _Sum(sum(one.calls for one in sums), sum(one.tokens for one in sums), sum(one.cost for one in sums))

    def _today(self) -> _Day:
        date = today()
        if self._day is None or self._day.date != date:
            if self._day is not None:
                self._write(self._day)
            self._day = _Day(date, _Sum(*self._store.spent(self._user, date)))
        return self._day

    def _write(self, day: _Day) -> None:
        """Write a day's spending to disk; after a failure, the next write includes it."""
        self._written = time.monotonic()
        spent = day.unwritten
        if not spent.calls:
            return
        try:
            self._store.add_spent(self._user, day.date, spent.calls, spent.tokens, spent.cost)
        except ConfigError as error:
            _log.warning("spending could not be written; the next write includes it", user=self._user, error=str(error))
        else:
            day.unwritten = _Sum()


def _above(user: str, spent: tuple[int, int, float], allowance: Allowance) -> str | None:
    """Return which of a day's limits is exceeded, or None."""
    found = allowance.exceeded(*spent)
    if found is None:
        return None
    name, _, most = found
    return (
        f"{user!r} can spend at most {most:,} {name} a day (UTC): an admin can raise the limit by `flightllm user set`"
    )
