"""`workload_aware`: what each class of prompts is likely to use again soon stays (KV cache in the wild, ATC'25).

A block's class is that of the prompt that used it last: its call site, and how many of the prompt's blocks were new,
which tells how likely a conversation is to go on, or that its query is done with the block. A prompt's last block, what
a call site's prompt begins with and earlier ones had too, as its instruction, and blocks that many prompts had are
classes of their own. Of each class it is learned how often its blocks are used again and after how long, as an
exponential distribution; until enough of its own is known, from those of all call sites. The block goes whose next use
is the least likely within the next seconds, given that it has not been used until now; within a class that is the one
used least recently, so that only one block of each class is looked at, and of all classes only now and then.

The paper's score does not have the last condition. With it, what was likely to be used soon, and was not, goes sooner.
The paper fits in the background, from samples; here each use is counted as it comes, and a class is fitted anew once a
tenth more is known of it, which is a division.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, TypeAlias

from flightllm.kvcache.eviction.base import Key, Policy, Use

_LIFE_SECONDS: Final = 5.0
"""The time for which the likelihood of a use is taken, as in the paper."""
_REMEMBERED: Final = 16
_LEAST_REMEMBERED: Final = 4
_ENOUGH: Final = 1 << 18
"""Times as many blocks as the cache has are remembered with their last use, or fewer times, but so many blocks."""
_SIZES: Final = 7
"""Classes of prompts by their new blocks: none, 1, 2 to 3, 4 to 7, …; all larger ones are in the last."""
_MANY: Final = 64
"""Prompts that had a block which is taken as shared by all."""
_LEARNED: Final = 16
"""The likelihoods of a class are learned anew after so many uses of its blocks, and a part more each time."""
_GROWTH: Final = 1.1
_WINDOW: Final = 65_536
"""Uses of a class that count; then all it knows counts half."""
_MOST_CLASSES: Final = 1_024
"""Classes that are remembered; of more the one of which a prompt came least recently is forgotten. While so many have
blocks that may go, those of further call sites count as one."""
_DONE: Final = "done"
"""Instead of a prompt's new blocks, for what its query is done with."""
_RANKED_SECONDS: Final = 0.1
"""Classes are compared by likelihoods that are at most so old."""
_SLACK: Final = 64
"""Ranks of classes without blocks that may go are dropped once they are more than the others, and so many."""
_LEAST_SECONDS: Final = 1e-3
_SPREAD: Final = 0.25
"""Times until the next use differ by this part of their mean, though those that were seen did not."""


@dataclass(slots=True, eq=False)
class _Class(Generic[Key]):
    """What is known of a class, and those of its blocks that may go, with when they came free and their places."""

    free: OrderedDict[Key, tuple[float, int]] = field(default_factory=OrderedDict)
    uses: float = 0.0
    reuses: float = 0.0
    seconds: float = 0.0
    """Sum of the times until blocks were used again."""
    least: float = math.inf
    expected: float = 0.5
    """Taken as the probability as long as nothing is known, where there is no prior."""
    probability: float = 0.5
    rate: float = 0.0
    """Of the exponential distribution, per second."""
    next: float = 0.0
    number: int = 0
    ranked: bool = False
    prior: _Class[Key] | None = None
    """The class of all call sites' prompts that are like this one's; it has no blocks."""

    def used(self) -> None:
        """Count a use."""
        if self.prior:
            self.prior.used()
        self.uses += 1
        self._learn_now_and_then()

    def used_again(self, seconds: float) -> None:
        """Count that a block was used again; instead of another one where there were no more uses that count."""
        if self.prior:
            self.prior.used_again(seconds)
        kept = min(self.reuses, self.uses - 1)
        if kept < self.reuses:
            self.seconds *= kept / self.reuses
        self.reuses = kept + 1
        self.seconds += seconds
        self.least = min(self.least, seconds)
        self._learn_now_and_then()

    def _learn_now_and_then(self) -> None:
        seen = self.uses + self.reuses
        if seen < self.next:
            return
        self.next = max(seen + _LEARNED, seen * _GROWTH)
        self._learn()
        if self.uses > _WINDOW:
            self.uses, self.reuses, self.seconds = self.uses / 2, self.reuses / 2, self.seconds / 2
            self.next, self.least = seen / 2 * _GROWTH, self.seconds / max(1.0, self.reuses)

    def _learn(self) -> None:
        """Take one more use as the prior has it."""
        expected = self.prior.probability if self.prior else self.expected
        self.probability = (self.reuses + expected) / (self.uses + 1.0)
        reuses, seconds, least = self.reuses, self.seconds, self.least
        if self.prior and self.prior.reuses:
            reuses, seconds = reuses + expected, seconds + expected * self.prior.seconds / self.prior.reuses
            least = min(least, self.prior.least)
        if reuses:
            mean = seconds / reuses
            self.rate = 1.0 / max(_LEAST_SECONDS, mean * _SPREAD, mean - least)

    def likelihood(self, age: float) -> float:
        """Return how likely a block that came free so long ago is used within the next seconds."""
        waiting = self._waiting(age)
        soon = waiting - self._waiting(age + _LIFE_SECONDS)
        return self.probability * soon / (1.0 - self.probability * (1.0 - waiting))

    def _waiting(self, age: float) -> float:
        """Return how likely a block that is used again some time has not been used until an age."""
        return math.exp(-self.rate * age)


_Rank: TypeAlias = tuple[float, float, int, int, _Class[Key]]
"""How likely the class's first block is used soon, how likely ever; its place and the class's number, from behind."""


class WorkloadAware(Policy[Key]):
    """Learns while it runs, until `learning` is turned off."""

    def __init__(self, blocks: int) -> None:
        self.learning = True
        self._most = max(_LEAST_REMEMBERED * blocks, min(_REMEMBERED * blocks, _ENOUGH))
        self._classes: OrderedDict[Hashable, _Class[Key]] = OrderedDict()
        self._priors: dict[Hashable, _Class[Key]] = {}
        self._count = count()
        self._ranked: list[_Rank[Key]] = []
        """A heap of all classes of whose blocks some may go, by what ranked the first of these when last looked at."""
        self._ranked_at, self._most_ranked = -math.inf, _SLACK
        self._last: OrderedDict[Key, tuple[_Class[Key], float, int, int]] = OrderedDict()
        """The class and the time of each block's last use, the number of its uses, and its place in the prompt."""
        self._free: dict[Key, _Class[Key]] = {}

    def use(self, use: Use[Key], now: float, done: Sequence[bool] = ()) -> None:
        """Learn from what is used again; see `Policy.use`. `done` tells of each block whether its query is with it."""
        keys, last = use.keys, self._last
        known = next((place for place, key in enumerate(keys) if key not in last), len(keys))
        size = min((len(keys) - known).bit_length(), _SIZES)
        first, end = known if use.kind != "" else 0, len(keys) - 1
        shared, parts = self._class(use.kind, "shared"), self._parts(use.kind, size)
        over = self._parts(use.kind, _DONE) if any(done) else parts
        if known == len(keys) and use.kind != "":
            parts = *parts[:2], self._class(use.kind, size, "end", "again")
        for place, key in enumerate(keys):
            before = last.pop(key, None)
            if before is not None and self.learning:
                before[0].used_again(now - before[1])
            times = before[2] + 1 if before else 1
            part = 2 if place == end else 0 if place < first else 1
            its = shared if times > _MANY else (over if done and done[place] else parts)[part]
            if self.learning:
                its.used()
            last[key] = its, now, times, place
        while len(last) > max(self._most, len(keys)):
            last.popitem(last=False)

    def free(self, key: Key, now: float) -> None:
        """Put a block behind the others of its class; see `Policy.free`."""
        its, _, _, place = self._last.get(key) or (self._class(""), now, 0, 0)
        self.hold(key)
        self._free[key] = its
        its.free[key] = now, place
        if not its.ranked:
            its.ranked = True
            heapq.heappush(self._ranked, self._rank(its, now))
            if len(self._ranked) > self._most_ranked:
                self._rank_all(now)

    def hold(self, key: Key) -> None:
        """Take a block out; see `Policy.hold`."""
        its = self._free.pop(key, None)
        if its is not None:
            del its.free[key]

    def evict(self, now: float) -> Key:
        """Return the block whose use soon is the least likely, then its use at all, then the farthest on."""
        if now - self._ranked_at > _RANKED_SECONDS:
            self._rank_all(now)
        while self._ranked:
            its = self._ranked[0][-1]
            if not its.free:
                heapq.heappop(self._ranked)
                its.ranked = False
                continue
            heapq.heapreplace(self._ranked, self._rank(its, now))
            if self._ranked[0][-1] is its:
                key = next(iter(its.free))
                self.hold(key)
                return key
        raise KeyError("no block may go")

    def _rank_all(self, now: float) -> None:
        for *_, its in self._ranked:
            its.ranked = bool(its.free)
        self._ranked = [self._rank(its, now) for *_, its in self._ranked if its.ranked]
        heapq.heapify(self._ranked)
        self._ranked_at, self._most_ranked = now, 2 * len(self._ranked) + _SLACK

    def _rank(self, its: _Class[Key], now: float) -> _Rank[Key]:
        since, place = next(iter(its.free.values()))
        return its.likelihood(now - since), its.probability, -place, its.number, its

    def _parts(self, site: Hashable, size: Hashable) -> tuple[_Class[Key], _Class[Key], _Class[Key]]:
        """Return the classes of a prompt's start, of what is between, and of its last block."""
        return self._class(site, size, "start"), self._class(site, size, "between"), self._class(site, size, "end")

    def _class(self, site: Hashable, *shape: Hashable) -> _Class[Key]:
        its = self._classes.get((site, shape))
        if its is None and len(self._ranked) > _MOST_CLASSES:
            site, its = "", self._classes.get(("", shape))
        if its is None:
            expected = 0.0 if _DONE in shape else 0.5
            prior = self._priors.setdefault(shape, _Class(expected=expected)) if shape else None
            its = self._classes[site, shape] = _Class(number=next(self._count), prior=prior)
        self._classes.move_to_end((site, shape))
        if len(self._classes) > _MOST_CLASSES:
            self._classes.popitem(last=False)
        return its

    def __contains__(self, key: object) -> bool:
        return key in self._free

    def __len__(self) -> int:
        return len(self._free)
