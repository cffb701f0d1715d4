"""`workload_aware`: keep the blocks whose class is the most likely to be used again soon.

The policy follows "KV cache in the wild" (ATC'25). The last prompt that used a block decides its class. The class
depends on the prompt's call site, its number of new blocks, and the block's place in the prompt. The place is the
start, the middle or the end; the start has the blocks with which earlier prompts began too (an instruction). Other
classes hold the blocks that many prompts used, and the blocks that their query no longer needs.

For each class the policy learns how often blocks are used again and after how long, as an exponential distribution. A
new class starts from the figures of all call sites. The policy evicts the block that is the least likely to be used
within the next seconds, given that it was not used until now. Within a class this is the block used least recently. So
an eviction compares one block of each class, and rarely ranks all classes.

The paper's score lacks the condition "not used until now". With the condition, a block that was expected soon and did
not come is evicted earlier. The paper fits distributions in the background from samples. Here each use is counted at
once, and a class is fitted again after a tenth more uses; a fit is a division.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Generic, NamedTuple, TypeAlias

from flightllm.kvcache.eviction.base import EvictionPolicy, Key, Use

_HORIZON_SECONDS: Final = 5.0
"""The policy compares the probabilities that blocks are used within this time, as in the paper."""
_HISTORY_FACTOR: Final = 16
"""The policy remembers the last uses of this many times the cache's blocks, up to `_HISTORY_BLOCKS`."""
_HISTORY_BLOCKS: Final = 1 << 18
_LEAST_HISTORY_FACTOR: Final = 4
"""The policy remembers at least this many times the cache's blocks, even beyond `_HISTORY_BLOCKS`."""
_LARGEST_SIZE: Final = 7
"""The largest size: 64 new blocks and more. The size of a prompt is the bit length of its number of new blocks."""
_SHARED_USES: Final = 64
"""A block with more uses than this is in the class of shared blocks."""
_REFIT_USES: Final = 16
"""A class is fitted again after this number of uses, or after a tenth more uses, whichever is later."""
_REFIT_GROWTH: Final = 1.1
_COUNTED_USES: Final = 65_536
"""After this number of uses, the counts of a class are halved, so that its figures follow a change of workload."""
_MOST_CLASSES: Final = 1_024
"""The most classes; with more, the policy forgets the class whose last prompt is the oldest.

While more classes than this have evictable blocks, all new call sites share one set of classes.
"""
_DONE: Final = "done"
"""Replaces the size in the name of a class if the query no longer needs the blocks of the class."""
_RANK_SECONDS: Final = 0.1
"""All classes are ranked again after this time."""
_SPARE_RANKS: Final = 64
"""Ranks of classes without free blocks are dropped once they outnumber the others by this number."""
_LEAST_SECONDS: Final = 1e-3
_LEAST_SPREAD: Final = 0.25
"""The time until the next use varies by at least this part of its mean, even if the times seen so far were equal."""


@dataclass(slots=True, eq=False)
class _ReuseStatistics:
    """How often the blocks of a class are used again, and after how long."""

    prior: _ReuseStatistics | None = None
    """The statistics of the same shape over all call sites; None if these are the statistics over all call sites."""
    expected: float = 0.5
    """The probability of reuse before the first use, if there is no prior."""
    uses: float = 0.0
    reuses: float = 0.0
    """How many of the uses were followed by a use of the same block."""
    seconds: float = 0.0
    """Sum of the times until blocks were used again."""
    least_seconds: float = math.inf
    probability: float = 0.5
    """The fitted probability that a block is ever used again."""
    rate: float = 0.0
    """The fitted rate, per second, of the exponential distribution of the time until the next use."""
    next_fit: float = 0.0
    """Fit again once uses and reuses reach this sum."""
    early: float = 0.0
    """Sum over the uses, at the time `counted_at`, of the probability that a reuse would be still to come."""
    counted_at: float = 0.0

    def count_uses(self, now: float, count: int = 1) -> None:
        """Count uses of blocks, here and in the prior."""
        if self.prior is not None:
            self.prior.count_uses(now, count)
        self.uses += count
        if now > self.counted_at:  # not for the other blocks of the same prompt
            self.early *= math.exp(-self.rate * (now - self.counted_at))
            self.counted_at = now
        self.early += count
        if self.uses + self.reuses >= self.next_fit:
            self._fit()

    def count_reuses(self, seconds: float, count: int = 1) -> None:
        """Count that blocks were used again after some seconds, here and in the prior.

        Reuses never exceed uses. After the counts were halved, more reuses can come than the uses that are left. Then
        a new reuse replaces an average one; such reuses must be counted one by one, see `is_alike`.
        """
        if self.prior is not None:
            self.prior.count_reuses(seconds, count)
        kept = min(self.reuses, self.uses - count)
        if kept < self.reuses:
            self.seconds *= kept / self.reuses
        self.reuses = kept + count
        self.seconds += count * seconds
        self.least_seconds = min(self.least_seconds, seconds)
        if self.uses + self.reuses >= self.next_fit:
            self._fit()

    def is_alike(self, count: int) -> bool:
        """Return whether the order of the next `count` uses and `count` reuses makes no difference."""
        counted = self.uses + self.reuses + 2 * count
        alike = counted < self.next_fit and self.reuses + count <= self.uses
        return alike and (self.prior is None or self.prior.is_alike(count))

    def _fit(self) -> None:
        counted = self.uses + self.reuses
        self.next_fit = max(counted + _REFIT_USES, counted * _REFIT_GROWTH)
        self._fit_distribution()
        if self.uses > _COUNTED_USES:
            self.uses, self.reuses, self.seconds = self.uses / 2, self.reuses / 2, self.seconds / 2
            self.early /= 2
            self.next_fit, self.least_seconds = counted / 2 * _REFIT_GROWTH, self.seconds / max(1.0, self.reuses)

    def _fit_distribution(self) -> None:
        """Fit probability and rate to the counts, with one more use that behaves as in the prior.

        A use whose reuse can still come did not fail. Of a use `age` seconds ago, the part `1 - e^(-rate * age)` is
        observed. The other part is censored: it counts neither as reused nor as not reused.

        Example: 3 uses, of which 1.2 are censored, 1 reuse after 4 s and an expected probability of 0.5. The
        probability is (1 + 0.5) / (3 - 1.2 + 1).
        """
        expected = self.prior.probability if self.prior is not None else self.expected
        observed = max(self.reuses, self.uses - self.early)
        self.probability = (self.reuses + expected) / (observed + 1.0)
        reuses, seconds, least = self.reuses, self.seconds, self.least_seconds
        if self.prior is not None and self.prior.reuses:
            reuses, seconds = reuses + expected, seconds + expected * self.prior.seconds / self.prior.reuses
            least = min(least, self.prior.least_seconds)
        if reuses:
            mean = seconds / reuses
            self.rate = 1.0 / max(_LEAST_SECONDS, mean * _LEAST_SPREAD, mean - least)

    def counts(self) -> list[float | None]:
        """Return the counts for `restore`. Uses whose reuse can still come are left out: they end with the cache."""
        least = None if math.isinf(self.least_seconds) else self.least_seconds
        return [max(self.reuses, self.uses - self.early), self.reuses, self.seconds, least]

    def restore(self, uses: float, reuses: float, seconds: float, least: float) -> None:
        """Continue with the counts of an earlier run. Uses since then whose reuse can still come stay counted."""
        self.uses, self.reuses, self.seconds, self.least_seconds = uses + self.early, reuses, seconds, least
        self._fit()

    def likelihood(self, age: float) -> float:
        """Return the probability that a block unused for `age` seconds is used within the next 5 seconds.

        Example with a probability of 0.5 and a rate of 0.2 per second. The longer a block was unused, the less likely
        it is ever used again.

        | age | unused so far, of reused blocks | used in the next 5 s | of all blocks unused so far              |
        |-----|---------------------------------|----------------------|------------------------------------------|
        | 0   | e^-0 = 1.000                    | 1.000 - 0.368        | 0.5 × 0.632 / (1 - 0.5 × 0.000) = 0.316  |
        | 5   | e^-1 = 0.368                    | 0.368 - 0.135        | 0.5 × 0.233 / (1 - 0.5 × 0.632) = 0.170  |
        | 10  | e^-2 = 0.135                    | 0.135 - 0.050        | 0.5 × 0.086 / (1 - 0.5 × 0.865) = 0.075  |
        """
        unused = math.exp(-self.rate * age)
        used_soon = unused - math.exp(-self.rate * (age + _HORIZON_SECONDS))
        return self.probability * used_soon / (1.0 - self.probability * (1.0 - unused))


@dataclass(slots=True, eq=False)
class _BlockClass(Generic[Key]):
    """The statistics of a class, and the blocks of the class that can be evicted."""

    number: int
    statistics: _ReuseStatistics
    free: OrderedDict[Key, tuple[float, int]] = field(default_factory=OrderedDict)
    """The evictable blocks, oldest first: the time at which each became evictable, and its position in its prompt."""
    ranked: bool = False
    """Whether the class is in the eviction queue."""
    score: float = 0.0
    """The last likelihood that was computed for a block of the class."""
    scored: tuple[float, float, float] | None = None
    """The age, the rate and the probability for which `score` holds."""


_Rank: TypeAlias = tuple[float, float, int, int, _BlockClass[Key]]
"""The rank of a class's first free block for eviction: the block with the lowest rank is evicted first.

The fields, in this order:

- the probability that the block is used soon
- the probability that it is ever used
- its negative position in the prompt, so that the end of a prompt is evicted first
- the number of the class; numbers differ, so a comparison never reaches the class
- the class

Each eviction makes a rank; a plain tuple saves a tenth of the eviction's time.
"""


def _count(used: _BlockClass[Key], reused: _BlockClass[Key] | None, seconds: float, count: int, now: float) -> None:
    """Count uses of `count` neighbouring blocks, which are reuses of blocks of the class `reused` unless it is None."""
    if not count:
        return
    if reused is None:
        if count == 1 or used.statistics.is_alike(count):
            used.statistics.count_uses(now, count)
        else:
            for _ in range(count):
                used.statistics.count_uses(now)
    elif count > 1 and used.statistics.is_alike(count) and reused.statistics.is_alike(count):
        reused.statistics.count_reuses(seconds, count)
        used.statistics.count_uses(now, count)
    else:
        for _ in range(count):
            reused.statistics.count_reuses(seconds)
            used.statistics.count_uses(now)


class _EvictionQueue(Generic[Key]):
    """The classes with free blocks, ordered by rank. A class has the rank of its first free block, computed earlier."""

    def __init__(self) -> None:
        self.ranks: list[_Rank[Key]] = []
        """A heap."""
        self._ranked_at = -math.inf
        self._most_ranks = _SPARE_RANKS

    def add(self, block_class: _BlockClass[Key], now: float) -> None:
        """Rank a class that is not in the queue and has a free block."""
        block_class.ranked = True
        heapq.heappush(self.ranks, _rank(block_class, now))
        if len(self.ranks) > self._most_ranks:
            self._rank_all(now)

    def lowest(self, now: float) -> _BlockClass[Key]:
        """Return the class whose first free block must be evicted first.

        Ranks change as time passes, so the lowest rank is computed again until it stays the lowest.

        Raises:
            KeyError: no block is free.
        """
        if now - self._ranked_at > _RANK_SECONDS:
            self._rank_all(now)
        ranks = self.ranks
        while ranks:
            block_class = ranks[0][-1]
            if not block_class.free:
                heapq.heappop(ranks)
                block_class.ranked = False
                continue
            heapq.heapreplace(ranks, _rank(block_class, now))
            if ranks[0][-1] is block_class:
                return block_class
        raise KeyError("all blocks are in use; no block can be evicted")

    def _rank_all(self, now: float) -> None:
        for *_, block_class in self.ranks:
            block_class.ranked = bool(block_class.free)
        self.ranks = [_rank(block_class, now) for *_, block_class in self.ranks if block_class.ranked]
        heapq.heapify(self.ranks)
        self._ranked_at, self._most_ranks = now, 2 * len(self.ranks) + _SPARE_RANKS


def _rank(block_class: _BlockClass[Key], now: float) -> _Rank[Key]:
    """Rank the first free block of a class."""
    since, position = next(iter(block_class.free.values()))
    statistics = block_class.statistics
    of = now - since, statistics.rate, statistics.probability
    if of != block_class.scored:  # the blocks of one prompt have one score
        block_class.scored, block_class.score = of, statistics.likelihood(now - since)
    return block_class.score, statistics.probability, -position, block_class.number, block_class


class _ClassTable(Generic[Key]):
    """The classes. The name of a class is a call site and a shape, such as `(2, "start")` or `("shared",)`."""

    def __init__(self, queue: _EvictionQueue[Key]) -> None:
        self._queue = queue
        self._numbers = count()
        self.classes: OrderedDict[tuple[Hashable, tuple[Hashable, ...]], _BlockClass[Key]] = OrderedDict()
        """The class whose last prompt is the oldest comes first."""
        self._priors: dict[tuple[Hashable, ...], _ReuseStatistics] = {}

    def get(self, site: Hashable, *shape: Hashable) -> _BlockClass[Key]:
        """Return a class, and create it if it is missing.

        While too many classes have evictable blocks, all new sites get one shared class per shape.
        """
        block_class = self.classes.get((site, shape))
        if block_class is None and len(self._queue.ranks) > _MOST_CLASSES:
            site, block_class = "", self.classes.get(("", shape))
        if block_class is None:
            block_class = self.classes[site, shape] = _BlockClass(next(self._numbers), self._new_statistics(shape))
        self.classes.move_to_end((site, shape))
        if len(self.classes) > _MOST_CLASSES:
            self.classes.popitem(last=False)
        return block_class

    def by_position(self, site: Hashable, size: Hashable) -> _ClassesByPosition[Key]:
        """Return the classes of a prompt's first blocks, of those in the middle, and of the last one."""
        return _ClassesByPosition(
            self.get(site, size, "start"), self.get(site, size, "middle"), self.get(site, size, "end")
        )

    def counts(self) -> dict[str, Any]:
        """Return the counts of all classes whose call site is a text, for `restore`."""
        return {
            "shapes": [[list(shape), *prior.counts()] for shape, prior in self._priors.items()],
            "classes": [
                [site, list(shape), *block_class.statistics.counts()]
                for (site, shape), block_class in self.classes.items()
                if isinstance(site, str)
            ],
        }

    def restore(self, content: Mapping[str, Any]) -> None:
        """Continue with the counts of an earlier run.

        Raises:
            KeyError, TypeError, ValueError: the content is not that of `counts`; nothing is changed.
        """
        shapes = [(_shape(shape), _counts(counts)) for shape, *counts in content["shapes"]]
        classes = [(str(site), _shape(shape), _counts(counts)) for site, shape, *counts in content["classes"]]
        for shape, counts in shapes:
            self._prior(shape).restore(*counts)
        for site, shape, counts in classes[-_MOST_CLASSES:]:
            self.get(site, *shape).statistics.restore(*counts)

    def _new_statistics(self, shape: tuple[Hashable, ...]) -> _ReuseStatistics:
        return _ReuseStatistics(self._prior(shape)) if shape else _ReuseStatistics()

    def _prior(self, shape: tuple[Hashable, ...]) -> _ReuseStatistics:
        prior = self._priors.get(shape)
        if prior is None:
            prior = self._priors[shape] = _ReuseStatistics(expected=0.0 if _DONE in shape else 0.5)
        return prior


def _shape(given: object) -> tuple[Hashable, ...]:
    if not isinstance(given, list) or not all(isinstance(part, int | str) for part in given):
        raise ValueError(f"expected the shape of a class, got {given!r}")
    return tuple(given)


def _counts(given: Sequence[Any]) -> tuple[float, float, float, float]:
    uses, reuses, seconds, least = given
    counts = float(uses), float(reuses), float(seconds), math.inf if least is None else float(least)
    if not all(0 <= count < math.inf for count in counts[:3]) or not counts[0] >= counts[1] or not counts[3] >= 0:
        raise ValueError(f"expected the counts of a class, got {given!r}")
    return counts


class _ClassesByPosition(NamedTuple, Generic[Key]):
    """The classes for blocks at the start of a prompt, in the middle, and for the last block."""

    start: _BlockClass[Key]
    middle: _BlockClass[Key]
    end: _BlockClass[Key]


@dataclass(slots=True, eq=False)
class _LastUse(Generic[Key]):
    """The last use of a block."""

    block_class: _BlockClass[Key]
    time: float
    uses: int
    """Prompts that used the block, the last one included."""
    position: int
    """The position of the block in the last prompt."""


class WorkloadAware(EvictionPolicy[Key]):
    """The learned policy of the module's docstring; it learns while it runs."""

    def __init__(self, blocks: int) -> None:
        self._most_last_uses = max(_LEAST_HISTORY_FACTOR * blocks, min(_HISTORY_FACTOR * blocks, _HISTORY_BLOCKS))
        self._last_uses: OrderedDict[Key, _LastUse[Key]] = OrderedDict()
        """By block, the oldest use first; for blocks in the cache and for evicted blocks."""
        self._queue: _EvictionQueue[Key] = _EvictionQueue()
        self._table: _ClassTable[Key] = _ClassTable(self._queue)
        self._free: dict[Key, _BlockClass[Key]] = {}
        """The blocks that can be evicted, and the class of each at the time when it became evictable."""

    def use(self, use: Use[Key], now: float, done: Sequence[bool] = ()) -> None:
        """Classify the blocks of a prompt, and learn which blocks were used again; see `EvictionPolicy.use`.

        `done` has one flag per block: whether the query no longer needs the block.

        Example: a prompt of a call site has four blocks, of which the first was used before. Three blocks are new, so
        the size is 2 (the bit length of 3). The prompt's query no longer needs the last block.

        | block | used before | done | class of the call site |
        |-------|-------------|------|------------------------|
        | a     | yes         | no   | (2, "start")           |
        | b     | no          | no   | (2, "middle")          |
        | c     | no          | no   | (2, "middle")          |
        | d     | no          | yes  | ("done", "end")        |
        """
        keys, last_uses, table = use.keys, self._last_uses, self._table
        known = next((position for position, key in enumerate(keys) if key not in last_uses), len(keys))
        size = min((len(keys) - known).bit_length(), _LARGEST_SIZE)
        # Without a call site, an equal start does not show that the prompts have the same instruction.
        start_blocks, last_position = known if use.kind != "" else 0, len(keys) - 1
        shared, classes = table.get(use.kind, "shared"), table.by_position(use.kind, size)
        done_classes = table.by_position(use.kind, _DONE) if any(done) else classes
        if known == len(keys) and use.kind != "":
            again = table.get(use.kind, size, "end", "again")
            classes = _ClassesByPosition(classes.start, classes.middle, again)
        counted, reused, since, count = classes.start, None, now, 0
        for position, key in enumerate(keys):
            of_block = done_classes if done and done[position] else classes
            if position == last_position:
                block_class = of_block.end
            else:
                block_class = of_block.start if position < start_blocks else of_block.middle
            last = last_uses.get(key)
            if last is None:
                before, at = None, now
                last_uses[key] = _LastUse(block_class, now, 1, position)
            else:
                before, at = last.block_class, last.time
                last.uses += 1
                if last.uses > _SHARED_USES:
                    block_class = shared
                last.block_class, last.time, last.position = block_class, now, position
                last_uses.move_to_end(key)
            if block_class is counted and before is reused and at == since:
                count += 1
            else:
                _count(counted, reused, now - since, count, now)
                counted, reused, since, count = block_class, before, at, 1
        _count(counted, reused, now - since, count, now)
        while len(last_uses) > max(self._most_last_uses, len(keys)):
            last_uses.popitem(last=False)

    def counts(self) -> dict[str, Any]:
        """Return the learned counts, for `restore` and JSON."""
        return self._table.counts()

    def restore(self, content: Mapping[str, Any]) -> None:
        """Continue with the counts of an earlier run; see `_ClassTable.restore`."""
        self._table.restore(content)

    def free(self, key: Key, now: float) -> None:
        """Append a block to the free blocks of its class; see `EvictionPolicy.free`."""
        self.free_all((key,), now)

    def free_all(self, keys: Sequence[Key], now: float) -> None:
        """Append blocks to the free blocks of their classes, the last one first; see `EvictionPolicy.free_all`."""
        free, last_uses = self._free, self._last_uses
        for key in reversed(keys):
            last = last_uses.get(key)
            if last is not None:
                block_class, position = last.block_class, last.position
            else:
                block_class, position = self._table.get(""), 0
            before = free.get(key)
            if before is not None:
                del before.free[key]
            free[key] = block_class
            block_class.free[key] = now, position
            if not block_class.ranked:
                self._queue.add(block_class, now)

    def hold(self, key: Key) -> None:
        """Keep a block from eviction; see `EvictionPolicy.hold`."""
        block_class = self._free.pop(key, None)
        if block_class is not None:
            del block_class.free[key]

    def clear(self) -> None:
        """Keep all blocks from eviction."""
        for key in list(self._free):
            self.hold(key)

    def evict(self, now: float) -> Key:
        """Remove and return the free block that is least likely to be used soon; see `EvictionPolicy.evict`.

        Of equally likely blocks, the policy evicts the block that is least likely to be ever used; then the block with
        the last position in its prompt.
        """
        key, _ = self._queue.lowest(now).free.popitem(last=False)
        del self._free[key]
        return key

    def __contains__(self, key: object) -> bool:
        return key in self._free

    def __len__(self) -> int:
        return len(self._free)
