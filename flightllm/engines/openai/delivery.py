"""Send the HTTP requests of one engine: within what the endpoint can serve, and again after failures that can pass."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from flightllm.engines.adaptive_limit import AdaptiveLimit
from flightllm.engines.openai.faults import ACCOUNT, Fault, FaultKind
from flightllm.engines.openai.verdicts import EndpointHistory, Trial, Verdict
from flightllm.llm.engine import Dispatch

_PROBE_PAUSE: Final = 5.0
"""Seconds after a failed probe before the next one."""
_OF_ONE: Final = frozenset({FaultKind.FAILED, FaultKind.BROKEN})
"""Of several rows in one request, a single one can cause these."""
T = TypeVar("T")


class RowsError(Exception):
    """An error for rows that fail where others succeed; the message follows the engine's name."""


class SpentError(RowsError):
    """An error for rows that a budget does not allow to be sent again."""


class EndpointError(Exception):
    """An error for a fault of the account or of the endpoint, which further rows would get too."""

    def __init__(self, fault: Fault, seconds: float) -> None:
        super().__init__(fault.text)
        self.fault = fault
        self.seconds = seconds
        """How long nothing has succeeded."""

    @property
    def text(self) -> str:
        """Return the message, which follows the engine's name."""
        if self.seconds < 1 or self.fault.kind in ACCOUNT or self.fault.kind is FaultKind.UNREACHABLE:
            return self.fault.text
        return f"{self.fault.text}; nothing succeeded for {self.seconds:,.0f} s"


class Delivery:
    """The requests of all callers of one engine. Only one event loop uses it.

    `window` is the most rows in flight, in requests of up to `per_request` rows. `probe` asks the endpoint a short
    question once. A failed row is sent again while other rows go on. `fit` gets how many rows the callers can hold:
    other rows have the place of one that waits.
    """

    def __init__(
        self,
        history: EndpointHistory,
        timeout: float,
        window: int,
        probe: Callable[[], Awaitable[None]],
        per_request: int = 1,
        fit: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.history = history
        self._resized = fit
        self._window = window
        self._probe = probe
        self._per_request = self._most_per_request = per_request
        self._limit = AdaptiveLimit(-(-window // per_request), timeout, lambda _: self._fit(), history.clock)
        self._parked = 0
        """The rows that wait for their next try."""
        self._proof: asyncio.Task[bool] | None = None
        """The present probe, or the last one."""
        self._disproved = -math.inf
        """The time of the last probe that failed."""
        self._fit()

    @property
    def per_request(self) -> int:
        """Return the most rows of one request."""
        return self._per_request

    @per_request.setter
    def per_request(self, rows: int) -> None:
        self._per_request = rows
        self._limit.most = -(-self._window // rows)
        self._fit()

    def carry(self, rows: int) -> None:
        """Change the most rows of one request; as many requests as before can run at once."""
        if rows != self._per_request:
            self._window = self._limit.most * rows
            self._per_request = self._most_per_request = rows
            self._fit()

    async def once(self, send: Callable[[], Awaitable[T | Fault]]) -> T:
        """Send a request a single time.

        Raises:
            EndpointError: the request failed.
        """
        async with self._limit.place() as sent:
            found = await send()
        if isinstance(found, Fault):
            raise EndpointError(found, 0.0)
        self._succeeded(sent)
        return found

    async def post(
        self,
        send: Callable[[], Awaitable[T | Fault]],
        trial: Trial,
        dispatches: Sequence[Dispatch],
        ready: Callable[[], Awaitable[None]] | None = None,
        tokens: int = 0,
    ) -> T:
        """Send a request until it succeeds, or until it is clear whose fault the failure is.

        `dispatches` count the tries of its rows; the answer of each has at most `tokens` tokens. Before each try,
        `ready` waits until the configured rate allows it.

        Raises:
            SpentError: the rows must not be sent again.
            RowsError: the rows fail where others succeed, or one row can be the cause of the failure of all.
            EndpointError: the account or the endpoint is at fault.
        """
        while True:
            if ready is not None:
                await ready()
            async with self._limit.place() as sent:
                if (refusal := count_try(dispatches, tokens)) is not None:
                    said = f"{trial.failed}; it is not asked again" if trial.failed else "is not asked"
                    raise SpentError(f"{said}, because {refusal}")
                trial.sent = sent
                found = await send()
            if not isinstance(found, Fault):
                self._succeeded(sent, trial)
                return found
            self._note_load(found.kind, sent)
            trial.failed = found.text
            if len(dispatches) > 1 and found.kind in _OF_ONE and (trial.tries or not trial.retries):
                raise RowsError(found.text)
            await self._wait_after(found, trial, dispatches)

    def _note_load(self, kind: FaultKind, sent: float) -> None:
        match kind:
            case FaultKind.TIMEOUT | FaultKind.RATE:
                self._limit.overloaded(sent, rate=kind is FaultKind.RATE)
            case FaultKind.GONE | FaultKind.UNREACHABLE:
                self._limit.refused(sent)
            case _:
                pass

    def _succeeded(self, sent: float, trial: Trial | None = None) -> None:
        self._limit.answered(sent)
        worked = self.history.works
        self.history.succeeded(trial)
        if not worked:
            self._fit()

    async def _wait_after(self, fault: Fault, trial: Trial, dispatches: Sequence[Dispatch]) -> None:
        """Wait until the rows of a failed request can be sent again; see `post` for the errors."""
        verdict = self.history.judge(trial, fault)
        with self._parking(len(dispatches)):
            if verdict is Verdict.ACCOUNT and await self._others_succeed(trial):
                verdict = Verdict.AGAIN
            if verdict is Verdict.PROBE:
                verdict = self.history.after_probe(trial, fault, succeeded=await self._proves(trial, dispatches[0]))
            if verdict is Verdict.AGAIN:
                await self.history.wait(trial, fault)
                return
        if verdict is Verdict.ROW:
            raise RowsError(fault.text)
        raise EndpointError(fault, self.history.down_seconds)

    @contextmanager
    def _parking(self, rows: int) -> Iterator[None]:
        self._parked += rows
        self._fit()
        try:
            yield
        finally:
            self._parked -= rows
            self._fit()

    def _fit(self) -> None:
        """Give the callers as many places as the endpoint can serve; while it works, rows that wait take no place."""
        parked = min(self._parked, self._window) if self.history.works else 0
        places = min(self._window, self._limit.limit * self._per_request)
        self._resized(max(places, self._most_per_request) + parked)  # a caller takes places for a whole request

    async def _proves(self, trial: Trial, dispatch: Dispatch) -> bool:
        """Return whether another row succeeds, now that one has failed; if nothing is in flight, send a probe."""
        if await self._others_succeed(trial):
            return True
        if self._proof is None or self._proof.done():
            if self.history.clock() < self._disproved + _PROBE_PAUSE or count_try([dispatch]) is not None:
                return False
            self._proof = asyncio.get_running_loop().create_task(self._probed())
        return await asyncio.shield(self._proof)

    async def _others_succeed(self, trial: Trial) -> bool:
        """Return whether another request succeeds after one that failed; wait while others are in flight."""
        while self._limit.running and not self.history.succeeded_since(trial.sent):
            await self._limit.next_end()
        return self.history.succeeded_since(trial.sent)

    async def _probed(self) -> bool:
        began = self.history.clock()
        await self._probe()
        found = self.history.succeeded_since(began)
        if not found:
            self._disproved = self.history.clock()
        return found


def count_try(dispatches: Sequence[Dispatch], tokens: int = 0) -> str | None:
    """Count the next HTTP request for some prompts; return why they must not be sent, or None.

    The answer of each prompt has at most `tokens` tokens. If one prompt must not be sent, none counts.
    """
    for place, dispatch in enumerate(dispatches):
        if (refusal := dispatch.admit(tokens)) is not None:
            for before in dispatches[:place]:
                before.retract()
            return refusal
    for dispatch in dispatches:
        dispatch.sent, dispatch.waits = True, False
    return None
