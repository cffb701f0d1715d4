"""The `planned` policy keeps blocks for waiting prompts and for later prompts of a query.

A query server knows two things about future prompts. It knows the prompts that wait in the engine. From the planner's
order, it knows how many of a prompt's first blocks later prompts of the query share.

Blocks are evicted in this order:

1. blocks without a plan;
2. blocks that later prompts of a query share;
3. blocks that waiting prompts need: first the block that is needed last.

While prompts have no plans, `Adaptive` orders the blocks, as in the policy `workload_aware`. From a prompt with a plan
on, `WorkloadAware` does: plans take up much of the cache, so ghosts of the whole cache say little about the rest. It
puts blocks that their query no longer needs into a separate class. It expects no use of these blocks until one of the
blocks is used again. Once prompts without a plan have filled the cache again, `Adaptive` returns.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from flightllm.kvcache.eviction.adaptive import Adaptive
from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use
from flightllm.kvcache.eviction.lru import Lru
from flightllm.kvcache.eviction.memory import Memory
from flightllm.kvcache.eviction.ranked import Ranked
from flightllm.kvcache.eviction.workload_aware import WorkloadAware

_PATIENCE_SECONDS: Final = 30.0
"""If a query sends no new prompt for this time, it counts as ended or stalled, and no blocks are kept for it.

If prompts of a query waited, its blocks are kept only until its last waiting prompt starts.
"""
_REMEMBERED: Final = 2
"""The policy remembers the plans of at most this many blocks, as a multiple of the cache's blocks."""
_UNPLANNED: Final = 2
"""`Adaptive` returns after this number of blocks of prompts without a plan, as a multiple of the cache's blocks.

Its new ghosts are empty. So it first evicts the blocks that the cache has, and then those of prompts since its return.
"""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of a block: it comes from the last prompt, in its query's order, that had the block."""

    query: Hashable
    number: int
    awaited: bool


@dataclass(slots=True)
class _Need:
    """A block's position in prompts, and the sorted (priority, turn) of each waiting prompt that needs the block."""

    place: int
    turns: list[tuple[int, int]] = field(default_factory=list)


class _Needed(Ranked[Key]):
    """The blocks that waiting prompts need.

    The block that is needed last is evicted first. Within a prompt, its last block is evicted first.
    """

    def __init__(self) -> None:
        super().__init__()
        self.needs: dict[Key, _Need] = {}

    def use(self, use: Use[Key], now: float) -> None:
        """Do nothing."""

    def free(self, key: Key, now: float) -> None:
        """Rank a block by its next need; see `EvictionPolicy.free`."""
        del now
        need = self.needs[key]
        priority, turn = need.turns[0]
        self.put(key, (-priority, -turn, -need.place))


class _Awaited(Lru[Key]):
    """The blocks that later prompts of a query share, in LRU order."""

    def __init__(self, query: Hashable) -> None:
        super().__init__()
        self.query = query


class PlannedPolicy(EvictionPolicy[Key]):
    """The `planned` policy: `queue` reports waiting prompts, and `Use.ahead` reports the later prompts of a query."""

    def __init__(self, blocks: int) -> None:
        self._blocks, self._most = blocks, _REMEMBERED * blocks
        self._adaptive: Adaptive[Key] | None = Adaptive(blocks)
        """None after a prompt with a plan."""
        self._learned: WorkloadAware[Key] = self._adaptive.learned
        """A part of `_adaptive`, which holds the blocks of a ghost; without `_adaptive`, the same as `_others`."""
        self._unplanned = 0
        """The blocks of the prompts since the last plan."""
        self._memory: Memory | None = None
        self._behind: Sequence[float] = ()
        """How far the ghosts of the last `_adaptive` were behind the best one, after it ended."""
        self._others: EvictionPolicy[Key] = self._adaptive
        """The blocks without a plan."""
        self._awaited: OrderedDict[Hashable, _Awaited[Key]] = OrderedDict()
        """The awaited blocks of each query that has such blocks."""
        self._needed: _Needed[Key] = _Needed()
        self._band: dict[Key, EvictionPolicy[Key]] = {}
        """The band that holds each evictable block: `_others`, `_needed` or a query's awaited blocks."""
        self._waiting: dict[int, tuple[tuple[int, int], Use[Key]]] = {}
        """Each waiting prompt and its (priority, turn), by `id(use)`. The id stays unique because this keeps `use`."""
        self._count = count()
        self._plans: OrderedDict[Key, _Plan] = OrderedDict()
        self._heard: OrderedDict[Hashable, float] = OrderedDict()
        """The time of each query's last prompt, the oldest first."""
        self._left: dict[Hashable, int] = {}
        """The number of prompts that still wait, for each query with prompts that waited."""

    def queue(self, use: Use[Key], now: float) -> None:
        """Keep the blocks of a waiting prompt; see `EvictionPolicy.queue`."""
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
        """Stop keeping the blocks of a prompt that no longer waits; see `EvictionPolicy.cancel`."""
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
        """Record the plan of each block of a prompt, as its query states it; see `EvictionPolicy.use`."""
        if use.ahead is not None:
            self._unplanned = 0
            self._follow_plans(now)
            self._hear(use.query, now)
            for place, key in enumerate(use.keys):
                known, plan = self._plans.pop(key, None), _Plan(use.query, use.number, place < use.ahead)
                self._plans[key] = plan if known is None or self._replaces(plan, known) else known
        while len(self._plans) > max(self._most, len(use.keys)):
            self._plans.popitem(last=False)
        done = (
            [key in self._plans and not self._plans[key].awaited for key in use.keys] if use.ahead is not None else ()
        )
        if use.ahead is None and self._adaptive is None:
            self._unplanned += len(use.keys)
            if self._unplanned >= _UNPLANNED * self._blocks:
                self._give_up(now)
                self._follow_ghosts(now)
        (self._learned if self._adaptive is None else self._adaptive).use(use, now, done)
        if self._memory is not None and self._memory.is_due(now):
            self._memory.write(self._counts(), now)
        if self._left.get(use.query) == 0:
            self.end(use.query)

    def remember(self, memory: Memory) -> None:
        """Begin with what an earlier run learned, and write what this one learns."""
        self._memory = memory
        memory.restore(self._restore)

    def _counts(self) -> dict[str, Any]:
        behind = self._behind if self._adaptive is None else self._adaptive.behind()
        return {**self._learned.counts(), "behind": list(behind)}

    def _restore(self, content: Mapping[str, Any]) -> None:
        (self._learned if self._adaptive is None else self._adaptive).restore(content)

    def free(self, key: Key, now: float) -> None:
        """Put a block into its band; see `EvictionPolicy.free`."""
        self.hold(key)
        plan = self._plans.get(key)
        band: EvictionPolicy[Key] = self._others
        if key in self._needed.needs:
            band = self._needed
        elif plan is not None and plan.awaited and plan.query in self._heard:
            band = self._awaited.setdefault(plan.query, _Awaited(plan.query))
        self._band[key] = band
        band.free(key, now)

    def hold(self, key: Key) -> None:
        """Remove a block; see `EvictionPolicy.hold`."""
        band = self._band.pop(key, None)
        if band is not None:
            band.hold(key)
            self._look_whether_empty(band)

    def evict(self, now: float) -> Key:
        """Return the next block to evict; see `EvictionPolicy.evict`."""
        self._give_up(now)
        awaited = next(iter(self._awaited.values()), self._needed)
        band = self._others if len(self._others) else awaited
        key = band.evict(now)
        self._look_whether_empty(band)
        del self._band[key]
        self._plans.pop(key, None)
        return key

    def end(self, query: Hashable) -> None:
        """Record the end of a query: its blocks move to the blocks without a plan."""
        since = self._heard.pop(query, 0.0)
        if not self._left.get(query):
            self._left.pop(query, None)
        band = self._awaited.pop(query, None)
        while band:
            key = band.evict(since)
            self._band[key] = self._others
            self._others.free(key, since)

    def _follow_plans(self, now: float) -> None:
        """Let `WorkloadAware` order the blocks without a plan, from a plan on."""
        if self._adaptive is None:
            return
        adaptive, self._adaptive, self._others = self._adaptive, None, self._learned
        self._behind = adaptive.behind()
        self._learned.clear()  # of the blocks of its ghost
        for key in adaptive.evictable():
            self._band[key] = self._learned
            self._learned.free(key, now)

    def _follow_ghosts(self, now: float) -> None:
        """Let `Adaptive` order the blocks without a plan, if all queries with plans are over."""
        if self._heard:
            return
        adaptive = Adaptive(self._blocks, self._learned)
        adaptive.rank(self._behind)
        while len(self._learned):  # blocks that no ghost knows go in the order in which they get there
            key = self._learned.evict(now)
            self._band[key] = adaptive
            adaptive.free(key, now)
        self._adaptive = self._others = adaptive

    def _look_whether_empty(self, band: EvictionPolicy[Key]) -> None:
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
        """Return whether `plan` replaces `known`.

        In the same query, a plan of an earlier prompt does not replace `known`. A plan of another query does not
        replace `known` if only `known` is awaited, and the query of `known` is active.
        """
        if plan.query == known.query:
            return plan.number >= known.number
        return plan.awaited or not known.awaited or known.query not in self._heard

    def __contains__(self, key: object) -> bool:
        return key in self._band

    def __len__(self) -> int:
        return len(self._band)
