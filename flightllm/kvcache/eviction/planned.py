"""`planned`: what waiting prompts need stays, and what later ones of a query have; the rest goes by `workload_aware`.

A server of queries knows what comes: the prompts that wait in the engine, and, by the planner's order, how much of each
prompt's start later ones of the same query have. Blocks go in this order: those of which nothing is planned, by their
class; those that later prompts of a query have; those that waiting prompts need, of which the one goes that is needed
last. What a query is done with is a class of its own, taken never to come back until it did.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from flightllm.kvcache.eviction.base import Key, Policy, Use
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.ranked import Ranked
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

_PATIENCE_SECONDS: Final = 30.0
"""A query of which no prompt came for so long is over, or stands still: nothing is kept for it any more. Of one whose
prompts waited nothing is kept once none does."""
_REMEMBERED: Final = 2
"""Of so many times as many blocks as the cache has it is remembered at most what their query said of them."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the last prompt of a query that had a block, in the query's order, said of it."""

    query: Hashable
    number: int
    awaited: bool


@dataclass(slots=True)
class _Need:
    """A block's place in prompts, and which waiting ones need it: their priorities and turns, the first one first."""

    place: int
    turns: list[tuple[int, int]] = field(default_factory=list)


class _Needed(Ranked[Key]):
    """What waiting prompts need; what is needed last goes first, of one prompt its end."""

    def __init__(self) -> None:
        super().__init__()
        self.needs: dict[Key, _Need] = {}

    def use(self, use: Use[Key], now: float) -> None:
        """Learn nothing."""

    def free(self, key: Key, now: float) -> None:
        """Rank a block by when it is needed next; see `Policy.free`."""
        del now
        need = self.needs[key]
        priority, turn = need.turns[0]
        self.put(key, (-priority, -turn, -need.place))


class _Awaited(Lru[Key]):
    """What later prompts of a query have."""

    def __init__(self, query: Hashable) -> None:
        super().__init__()
        self.query = query


class Planned(Policy[Key]):
    """Told what waits by `queue`, and of what comes after that by `Use.ahead`."""

    def __init__(self, blocks: int) -> None:
        self._most = _REMEMBERED * blocks
        self._others: WorkloadAware[Key] = WorkloadAware(blocks)
        self._awaited: OrderedDict[Hashable, _Awaited[Key]] = OrderedDict()
        """By query, those that have any."""
        self._needed: _Needed[Key] = _Needed()
        self._band: dict[Key, Policy[Key]] = {}
        """Where each block is that may go."""
        self._waiting: dict[int, tuple[tuple[int, int], Use[Key]]] = {}
        """Priorities and turns of prompts that wait, by their identity, which is theirs as long as they are kept."""
        self._count = count()
        self._plans: OrderedDict[Key, _Plan] = OrderedDict()
        self._heard: OrderedDict[Hashable, float] = OrderedDict()
        """When a prompt of a query came last, in that order."""
        self._left: dict[Hashable, int] = {}
        """How many prompts of a query wait, of those queries of which any did."""

    def queue(self, use: Use[Key], now: float) -> None:
        """Keep what a waiting prompt needs; see `Policy.queue`."""
        if id(use) in self._waiting:
            return
        if use.query in self._heard:
            self._hear(use.query, now)
        turn = use.priority, next(self._count)
        self._waiting[id(use)] = turn, use
        self._left[use.query] = self._left.get(use.query, 0) + 1
        for place, key in enumerate(use.keys):
            need = self._needed.needs.get(key)
            if need is None:
                need = self._needed.needs[key] = _Need(place)
            insort(need.turns, turn)
            if key in self._band and need.turns[0] == turn:
                self.free(key, now)

    def cancel(self, use: Use[Key], now: float) -> None:
        """Keep it no longer; see `Policy.cancel`."""
        if id(use) not in self._waiting:
            return
        turn, _ = self._waiting.pop(id(use))
        self._left[use.query] -= 1
        if not self._left[use.query] and use.query not in self._heard:
            del self._left[use.query]
        for key in reversed(use.keys):
            turns = self._needed.needs[key].turns
            first = bisect_left(turns, turn)
            del turns[first]
            if not turns:
                del self._needed.needs[key]
            if key in self._band and not first:
                self.free(key, now)

    def use(self, use: Use[Key], now: float) -> None:
        """Learn from a prompt, and take note of its query's plan; see `Policy.use`."""
        if use.ahead is not None:
            self._hear(use.query, now)
            for place, key in enumerate(use.keys):
                known, plan = self._plans.pop(key, None), _Plan(use.query, use.number, place < use.ahead)
                self._plans[key] = plan if known is None or self._replaces(plan, known) else known
        while len(self._plans) > max(self._most, len(use.keys)):
            self._plans.popitem(last=False)
        done = (
            [key in self._plans and not self._plans[key].awaited for key in use.keys] if use.ahead is not None else ()
        )
        self._others.use(use, now, done)
        if self._left.get(use.query) == 0:
            self.end(use.query)

    def free(self, key: Key, now: float) -> None:
        """Put a block into its band; see `Policy.free`."""
        self.hold(key)
        plan = self._plans.get(key)
        band: Policy[Key] = self._others
        if key in self._needed.needs:
            band = self._needed
        elif plan is not None and plan.awaited and plan.query in self._heard:
            band = self._awaited.setdefault(plan.query, _Awaited(plan.query))
        self._band[key] = band
        band.free(key, now)

    def hold(self, key: Key) -> None:
        """Take a block out; see `Policy.hold`."""
        band = self._band.pop(key, None)
        if band is not None:
            band.hold(key)
            self._look_whether_empty(band)

    def evict(self, now: float) -> Key:
        """Return the block to go next; see `Policy.evict`."""
        self._give_up(now)
        awaited = next(iter(self._awaited.values()), self._needed)
        band = self._others if len(self._others) else awaited
        key = band.evict(now)
        self._look_whether_empty(band)
        del self._band[key]
        self._plans.pop(key, None)
        return key

    def end(self, query: Hashable) -> None:
        """Take note that no prompts of a query come any more: its blocks are now kept as others are."""
        since = self._heard.pop(query, 0.0)
        if not self._left.get(query):
            self._left.pop(query, None)
        band = self._awaited.pop(query, None)
        while band:
            key = band.evict(since)
            self._band[key] = self._others
            self._others.free(key, since)

    def _look_whether_empty(self, band: Policy[Key]) -> None:
        if isinstance(band, _Awaited) and not len(band):
            del self._awaited[band.query]

    def _hear(self, query: Hashable, now: float) -> None:
        self._heard[query] = now
        self._heard.move_to_end(query)
        self._give_up(now)

    def _give_up(self, now: float) -> None:
        while self._heard and now - next(iter(self._heard.values())) > _PATIENCE_SECONDS:
            self.end(next(iter(self._heard)))

    def _replaces(self, plan: _Plan, known: _Plan) -> bool:
        """Tell whether a plan is the one to go by: not an earlier prompt's, nor another query's that needs less."""
        if plan.query == known.query:
            return plan.number >= known.number
        return plan.awaited or not known.awaited or known.query not in self._heard

    def __contains__(self, key: object) -> bool:
        return key in self._band

    def __len__(self) -> int:
        return len(self._band)
