"""Decide whose fault a failed request is: the row's, the account's or the endpoint's.

One request tells little: HTTP 403 can be a moderated row or a wrong key, HTTP 503 a row that kills a worker or an
endpoint that is down. The outcomes of other requests in the meantime tell them apart. If others succeed, the row is at
fault. An account or an endpoint is at fault only if nothing succeeds.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Final

from flightllm.engines.openai.faults import ACCOUNT, Fault, FaultKind
from flightllm.engines.openai.usage import Usage

_FIRST_PAUSE, _MOST_PAUSE, _MOST_LONE_PAUSE = 0.5, 8.0, 30.0
"""Seconds before the next try: it doubles up to the second number, or to the third while nothing succeeds."""
_MOST_OWN_PAUSE: Final = 2.0
"""The same where others succeed and the rate is not limited: waiting longer helps nobody."""
_RECENT, _LATEST = 200, 40
"""The first tries from which the endpoint's failure rate is estimated; the latest of them, because it can rise."""
_RECENT_SECONDS: Final = 30.0
"""If another row succeeded within so many seconds, a failure is probably the fault of its own row."""
_BY_CHANCE, _LATE_BY_CHANCE = 1e-5, 2.5e-3
"""A row has failed by its own fault if chance gives so many failures more rarely: then 200 rows have their answers even
where many fail at random. A timeout takes long, so two are enough where no other row had one."""
_NEW_BY_CHANCE, _NEW_LATE_BY_CHANCE = 3e-4, 1e-3
"""The same at the failure rate since the row's first try. Only rows at the start of a disturbance need this rate."""
_FEWEST: Final = 3
"""The fewest failures with an HTTP status that count: two can come of one moment."""
_USUAL_RETRIES: Final = 5
"""The most retries where the failure rate does not decide."""
_MOST_SCOUT_PAUSE: Final = 4.0
"""While nothing succeeds, one of the rows that wait asks at least this often; a success wakes the others."""
_ACCOUNT_PATIENCE: Final = 30.0
"""Seconds after which an account that once worked counts as empty or locked, if nothing succeeds."""
_PROOFS: Final = 2
"""How often another prompt must succeed between two failures of a row. Once is not enough: the endpoint can come back
between the two."""
_DEFINITE: Final = frozenset({FaultKind.DENIED, FaultKind.PATH})
"""A row gets these again and again, so it is not sent again where others succeed; they can mean the account, too."""
_OF_CHANCE: Final = frozenset({FaultKind.GONE, FaultKind.FAILED, FaultKind.TIMEOUT, FaultKind.BROKEN})
"""Faults that come by chance: how often they do decides how many tries a row gets."""
_ALIVE: Final = frozenset({FaultKind.FAILED, FaultKind.TIMEOUT, FaultKind.BROKEN})
"""An endpoint that fails so is alive. If it never worked, or if nobody waits for it, its rows fail one by one."""


class Verdict(Enum):
    """The consequence of a failure."""

    AGAIN = auto()
    """Send the row again after a pause."""
    PROBE = auto()
    """Ask the endpoint a short question: its answer tells the row's fault from the endpoint's."""
    ROW = auto()
    """The row has an error of its own."""
    ACCOUNT = auto()
    """No later prompt can succeed before somebody changes the configuration or the account."""
    ENDPOINT = auto()
    """The endpoint is down."""


@dataclass(slots=True)
class Trial:
    """The history of one row, or of rows in one request."""

    retries: int | None = None
    """How often to send the rows again at most; None: as often as configured."""
    sent: float = -math.inf
    """The time of the last try."""
    began: float = -math.inf
    """The time of the first try that succeeded or failed by chance."""
    own: int = 0
    """The failures during which another row succeeded."""
    vain: int = 0
    """The other failures."""
    proofs: int = 0
    """The probes that succeeded after a failure."""
    failed: str = ""
    """Why the last try failed."""
    used: Usage = field(default_factory=Usage)
    """The tokens of failed tries."""

    @property
    def tries(self) -> int:
        """Return how often the row has failed."""
        return self.own + self.vain


@dataclass(slots=True)
class EndpointHistory:
    """The past outcomes at one endpoint with one key and model. Only one event loop uses it.

    `retries` is how often a row is sent again at most. `patience` is how many seconds nothing must succeed before the
    endpoint counts as down.
    """

    retries: int
    patience: float = 0.0
    clock: Callable[[], float] = time.monotonic
    worked: bool = False
    """Whether anything has ever succeeded."""
    reason: str = ""
    """Why the last failure happened, while nothing succeeds."""
    _succeeded: float = field(default=-math.inf, init=False)
    _trouble: float = field(default=math.inf, init=False)
    """The time of the first failure since the last success."""
    _success: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """The next success after a failure."""
    _next_try: float = field(default=-math.inf, init=False)
    """When the next row asks again, while nothing succeeds."""
    _tries: deque[tuple[Trial, float, bool]] = field(default_factory=partial(deque, maxlen=_RECENT), init=False)
    """The latest first tries: the row, the time, and whether it failed."""
    _all: deque[tuple[Trial, float, bool]] = field(default_factory=partial(deque, maxlen=_RECENT), init=False)
    """The latest of all tries."""

    @property
    def works(self) -> bool:
        """Return whether the last outcome was a success."""
        return self.worked and self._trouble == math.inf

    @property
    def down_seconds(self) -> float:
        """Return for how long nothing but failures came; 0 if the last outcome was a success."""
        return max(0.0, self.clock() - self._trouble)

    def succeeded(self, trial: Trial | None = None) -> None:
        """Record that a request succeeded; `trial` is the history of its rows."""
        if trial is not None:
            self._note(trial, failed=False)
        if self._trouble != math.inf:
            self._success.set()
            self._success = asyncio.Event()
        self.worked = True
        self._succeeded, self._trouble, self.reason = self.clock(), math.inf, ""

    def succeeded_since(self, sent: float) -> bool:
        """Return whether a request succeeded after a time."""
        return self._succeeded > sent

    def judge(self, trial: Trial, fault: Fault) -> Verdict:
        """Record a failure of a row, and return what follows from it."""
        others = self._succeeded > trial.sent
        retries = self.retries if trial.retries is None else trial.retries
        if fault.kind in _OF_CHANCE:
            self._note(trial, failed=True)
        if others:
            trial.own += 1
        else:
            trial.vain += 1
            self._trouble = min(self._trouble, self.clock())
            self.reason = fault.text
        if fault.kind in ACCOUNT and not self.worked:
            return Verdict.PROBE if fault.kind in _DEFINITE else Verdict.ACCOUNT
        if fault.kind is FaultKind.UNREACHABLE and not self.worked:
            return Verdict.ENDPOINT
        if fault.kind in _DEFINITE:
            return Verdict.ROW if others else Verdict.PROBE
        enough = min(retries + 1, self._failures_beyond_chance(trial, fault))
        if trial.own >= enough or trial.proofs >= _PROOFS:
            return Verdict.ROW
        if self._is_too_late(fault):
            return Verdict.ROW if others else Verdict.PROBE
        if trial.tries >= enough and (trial.own or self.clock() < self._succeeded + _RECENT_SECONDS):
            return Verdict.PROBE  # no other row is in flight that could succeed
        if others or trial.tries <= self._least_retries(trial):
            return Verdict.AGAIN
        return Verdict.ROW if fault.kind in _ALIVE and not self.worked else Verdict.PROBE

    def _note(self, trial: Trial, *, failed: bool) -> None:
        if trial.began == -math.inf:
            trial.began = trial.sent
        outcome = trial, self.clock(), failed
        self._all.append(outcome)
        if not trial.tries:
            self._tries.append(outcome)

    def _least_retries(self, trial: Trial) -> int:
        """Return the retries of rows where the failure rate does not decide."""
        return min(_USUAL_RETRIES, self.retries if trial.retries is None else trial.retries)

    def _failures_beyond_chance(self, trial: Trial, fault: Fault) -> int:
        """Return how many failures of one row are hardly chance at the failure rate of the other rows.

        If 20 of 200 other rows failed at their first try, 5 failures in a row come by chance once in 60,000 rows. The
        rate can have risen just now: so few tries of others since the row's first one show little, too.
        """
        if fault.kind not in _OF_CHANCE:
            return _USUAL_RETRIES + 1
        tries = [failed for row, _, failed in self._tries if row is not trial]
        since = [failed for row, at, failed in self._all if row is not trial and at > trial.began]
        failed, latest, now = sum(tries), tries[-_LATEST:], (sum(since) + 1) / (len(since) + 2)
        rate = max((failed + 1) / (len(tries) + 2), min(0.9, sum(latest) / _LATEST))
        late = fault.kind is FaultKind.TIMEOUT and not failed
        if late:
            return max(2, _failures(rate, _LATE_BY_CHANCE), _failures(now, _NEW_LATE_BY_CHANCE))
        return max(_FEWEST, _failures(rate, _BY_CHANCE), _failures(now, _NEW_BY_CHANCE))

    def after_probe(self, trial: Trial, fault: Fault, *, succeeded: bool) -> Verdict:
        """Return what follows from a failure after a probe."""
        if succeeded:
            trial.proofs += 1
            proofs = trial.proofs + (trial.own if trial.tries >= self._failures_beyond_chance(trial, fault) else 0)
            definite = fault.kind in _DEFINITE or proofs >= _PROOFS or self._is_too_late(fault)
            return Verdict.ROW if definite else Verdict.AGAIN
        if trial.tries <= self._least_retries(trial) and fault.kind in _OF_CHANCE and not self._is_too_late(fault):
            return Verdict.AGAIN
        if fault.kind in ACCOUNT:
            patience = min(self.patience, _ACCOUNT_PATIENCE) if self.worked else 0.0
            return Verdict.ACCOUNT if self.down_seconds >= patience else Verdict.AGAIN
        if fault.kind in _ALIVE and not self.patience:
            return Verdict.ROW
        return Verdict.ENDPOINT if self._is_too_late(fault) or self.down_seconds >= self.patience else Verdict.AGAIN

    def _is_too_late(self, fault: Fault) -> bool:
        """Return whether the time of the next try is after the patience."""
        return fault.wait is not None and fault.wait > max(self.patience, _MOST_LONE_PAUSE)

    async def wait(self, trial: Trial, fault: Fault) -> None:
        """Wait before the next try of a row; a success wakes the rows that failed while nothing succeeded."""
        seconds = self.pause(trial, fault)
        if self.works or (fault.kind is FaultKind.RATE and fault.wait is not None):
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._success.wait(), seconds)

    def pause(self, trial: Trial, fault: Fault) -> float:
        """Return how many seconds a row waits at most: what the endpoint asks for, or ever longer."""
        if fault.wait is not None:
            return fault.wait
        scouts = not self.works and self._next_try <= self.clock()
        own = _MOST_OWN_PAUSE if fault.kind in _OF_CHANCE else _MOST_PAUSE
        most = _MOST_SCOUT_PAUSE if scouts else own if trial.own else _MOST_LONE_PAUSE
        pause = min(most, _FIRST_PAUSE * 2.0 ** min(trial.tries - 1, 16))
        pause *= random.uniform(0.75, 1.0)  # noqa: S311 - it spreads the tries of many rows
        if scouts:
            self._next_try = self.clock() + pause
        return pause


def _failures(rate: float, chance: float) -> int:
    """Return how many failures in a row come by chance more rarely than `chance`."""
    return math.ceil(math.log(chance) / math.log(rate))
