"""`planned`: what prompts that wait still need stays, what a query is done with goes, the rest by `workload_aware`.

A server of queries knows what comes: the prompts that wait in the engine, and, by the planner's order, how much of each
prompt's start later ones of the same query have. Blocks go in this order: those that their query is done with; those of
which nothing is known, by their class; those that later prompts of a query have; those that waiting prompts need, of
which the one goes that is needed last.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Final

from flightllm.kvcache.eviction.base import Key, Policy, Use
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.ranked import Ranked
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

_PATIENCE_SECONDS: Final = 30.0
"""A query of which no prompt came for so long is over, or stands still: what it awaits counts as others' blocks do."""
_REMEMBERED: Final = 4
"""Times as many blocks as the cache has are remembered with what their query said of them."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the last prompt of a query that had a block, in the query's order, said of it."""

    query: Hashable
    number: int
    awaited: bool


class _Needed(Ranked[Key]):
    """What waiting prompts need; what is needed last goes first, of one prompt its end."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: defaultdict[Key, list[tuple[int, int, int]]] = defaultdict(list)
        """Which waiting prompts need a block, in the order in which they begin: priority, turn, its place in them."""

    def use(self, use: Use[Key], now: float) -> None:
        """Learn nothing."""

    def free(self, key: Key, now: float) -> None:
        """Rank a block by when it is needed next; see `Policy.free`."""
        del now
        priority, turn, place = self.turns[key][0]
        self.put(key, (-priority, -turn, -place))


class Planned(Policy[Key]):
    """Told what waits by `queue`, and of what comes after that by `Use.ahead`."""

    def __init__(self, blocks: int) -> None:
        self._most = _REMEMBERED * blocks
        self._done: Lru[Key] = Lru()
        self._others: WorkloadAware[Key] = WorkloadAware(blocks)
        self._awaited: dict[Hashable, Lru[Key]] = {}
        self._needed: _Needed[Key] = _Needed()
        self._band: dict[Key, Policy[Key]] = {}
        """Where each block is that may go."""
        self._waiting: dict[int, tuple[int, Use[Key]]] = {}
        """The turns of prompts that wait, by their identity, which is nobody else's as long as they are kept here."""
        self._count = count()
        self._plans: OrderedDict[Key, _Plan] = OrderedDict()
        self._heard: OrderedDict[Hashable, float] = OrderedDict()
        """When a prompt of a query came last, in that order."""

    def queue(self, use: Use[Key], now: float) -> None:
        """Keep what a waiting prompt needs; see `Policy.queue`."""
        if id(use) in self._waiting:
            return
        if use.query in self._heard:
            self._hear(use.query, now)
        turn = next(self._count)
        self._waiting[id(use)] = turn, use
        for place, key in enumerate(use.keys):
            turns, needed = self._needed.turns[key], (use.priority, turn, place)
            insort(turns, needed)
            if key in self._band and turns[0] == needed:
                self.free(key, now)

    def cancel(self, use: Use[Key], now: float) -> None:
        """Keep it no longer; see `Policy.cancel`."""
        if id(use) not in self._waiting:
            return
        turn, _ = self._waiting.pop(id(use))
        for place, key in reversed(list(enumerate(use.keys))):
            turns = self._needed.turns[key]
            first = bisect_left(turns, (use.priority, turn, place))
            del turns[first]
            if not turns:
                del self._needed.turns[key]
            if key in self._band and not first:
                self.free(key, now)

    def use(self, use: Use[Key], now: float) -> None:
        """Learn from a prompt, and take note of its query's plan; see `Policy.use`."""
        self._others.use(use, now)
        if use.ahead is None:
            for key in use.keys:  # what one query is done with others may come back to
                if key in self._plans and not self._plans[key].awaited:
                    del self._plans[key]
            return
        self._hear(use.query, now)
        for place, key in enumerate(use.keys):
            known, plan = self._plans.pop(key, None), _Plan(use.query, use.number, place < use.ahead)
            self._plans[key] = plan if known is None or _replaces(plan, known) else known
        while len(self._plans) > max(self._most, len(use.keys)):
            self._plans.popitem(last=False)

    def free(self, key: Key, now: float) -> None:
        """Put a block into its band; see `Policy.free`."""
        plan = self._plans.get(key)
        band: Policy[Key] = self._others
        if self._needed.turns.get(key):
            band = self._needed
        elif plan is not None and not plan.awaited:
            band = self._done
        elif plan is not None and plan.query in self._heard:
            band = self._awaited.setdefault(plan.query, Lru())
        self.hold(key)
        self._band[key] = band
        band.free(key, now)

    def hold(self, key: Key) -> None:
        """Take a block out; see `Policy.hold`."""
        band = self._band.pop(key, None)
        if band is not None:
            band.hold(key)

    def evict(self, now: float) -> Key:
        """Return the block to go next; see `Policy.evict`."""
        self._give_up(now)
        waiting = [band for band in self._awaited.values() if len(band)]
        for band in (self._done, self._others, *waiting, self._needed):
            if len(band):
                key = band.evict(now)
                del self._band[key]
                return key
        raise KeyError("no block may go")

    def end(self, query: Hashable) -> None:
        """Take note that no prompts of a query come any more: its blocks are now kept as others are."""
        since = self._heard.pop(query, 0.0)
        band = self._awaited.pop(query, None)
        while band:
            key = band.evict(since)
            self._band[key] = self._others
            self._others.free(key, since)

    def _hear(self, query: Hashable, now: float) -> None:
        self._heard[query] = now
        self._heard.move_to_end(query)
        self._give_up(now)

    def _give_up(self, now: float) -> None:
        while self._heard and now - next(iter(self._heard.values())) > _PATIENCE_SECONDS:
            self.end(next(iter(self._heard)))

    def __contains__(self, key: object) -> bool:
        return key in self._band

    def __len__(self) -> int:
        return len(self._band)


def _replaces(plan: _Plan, known: _Plan) -> bool:
    """Tell whether a plan is the one to go by: not an earlier prompt's, nor another query's that needs less."""
    if plan.query == known.query:
        return plan.number >= known.number
    return plan.awaited or not known.awaited
