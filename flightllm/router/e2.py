"""`e2`: exploit cached prefixes, explore where little is cached (Preble's E2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from flightllm.router.fleet import Fleet
from flightllm.router.hot_prefixes import HotPrefixes
from flightllm.router.online import OnlineRouter
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.recent_load import RecentLoad
from flightllm.router.tree import Node

_CANDIDATES: Final = 8
"""How many of the least loaded replicas are compared; also how many of those that hold the prefix."""
_DECODING_SHARE: Final = 0.9
"""A replica counts as only decoding if at least this share of its work is decoding."""


@dataclass(frozen=True, slots=True)
class E2Options:
    """Switches for the parts of the policy, and for its differences from the paper."""

    exploit: bool = True
    load: Literal["open", "window"] = "open"
    """The load L of a replica, in predicted seconds.

    `open` counts the prompts without an answer. `window` counts all prompts of the window, as in the paper; it suits a
    scheduler that does not learn about answers.
    """
    eviction: Literal["reuses", "requests", "none"] = "reuses"
    """The eviction cost M: the sum over the evicted nodes of the prefill seconds times a weight.

    With `reuses`, the weight is (n - 1) / n for a node with n requests in the window: one recomputation serves all
    later requests. With `requests`, the weight is n, as in the paper. With `none`, M is 0.
    """
    rebalance: float = 1.5
    """Prompts are redirected from a replica whose load exceeds this many times the least load; 0: never."""
    guard: float = 16.0
    """A second condition: the loads must differ by this many times the extra work of computing the prompt elsewhere.

    Later prompts pay for the extra work too, and more so the fuller the replicas are. The paper has no guard: 0.
    """
    crowd: float = 96.0
    """A prompt also leaves its prefix if the wait there is too long for the crowd of prompts that ask for the prefix.

    The condition compares two products. One is the difference of the waits times the number of unanswered prompts with
    this prefix on the replica: the crowd that follows shares the extra work of computing the prefix elsewhere. The
    other is that work, times this number and the share of replicas that have a wait: on a busy replica, the work delays
    other prompts. The paper has no such rule: 0.
    """
    autoscale: bool = True
    """Whether a prefix gets another replica when its prompts wait twice as long as before."""
    hot: float = 0.5
    """A condition of `autoscale`: the least share of one replica's recent requests that the prefix must have.

    For a smaller prefix, other prefixes can make room instead. The paper has no such condition: 0.
    """
    decode_balance: bool = True
    """Whether a prompt to compute prefers a replica that only decodes.

    The extra cost there must be less than the prompt's prefill.
    """


PAPER: Final = E2Options(load="window", eviction="requests", guard=0.0, crowd=0.0, hot=0.0)
"""The options of the Preble paper."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt, and the state of the replicas when it arrives."""

    prompt: RoutedPrompt
    leaf: Node
    load: NDArray[np.float64]
    holders: list[int]
    """The least loaded of the replicas that hold the longest part of the prompt."""
    cached: dict[int, int]
    """How many blocks of the prompt each replica holds without a gap. Replicas with 0 blocks are left out."""
    now: float


@dataclass(frozen=True, slots=True)
class _Cost:
    """The cost of a prompt on a replica, in seconds."""

    replica: int
    load: float
    prefill: float
    eviction: float

    @property
    def work(self) -> float:
        """Return the cost without the load: prefill and evictions."""
        return self.prefill + self.eviction

    @property
    def total(self) -> float:
        """Return L + M + P."""
        return self.load + self.prefill + self.eviction


class E2(OnlineRouter):
    """Preble's E2 policy. One thread at a time.

    Exploit: where more than half of a prompt is cached, choose the cheapest replica that holds its longest part.
    Explore: otherwise, choose the replica with the lowest L + M + P (Preble, sections 3.1 and 3.2). L is the load, M
    the work that evictions will cause, and P the prefill of the tokens that are not cached.
    """

    def __init__(self, fleet: Fleet, options: E2Options | None = None) -> None:
        super().__init__(fleet)
        self.options = options or E2Options()
        self._recent = RecentLoad(fleet.window_seconds) if self.options.load == "window" else None
        self._hot = HotPrefixes(fleet.window_seconds) if self.options.autoscale else None

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the replica for a prompt."""
        load = self.fleet.load if self._recent is None else self._recent.load(self.fleet.load, now)
        key, matched = _matched(leaf)
        holders = [] if key is None else _least(load, key.replicas())
        asked = _Asked(prompt, leaf, load, holders, self.fleet.tree.cached_by_replica(leaf), now)
        mostly = 2 * matched * self.fleet.tree.block_tokens > prompt.count
        if self.options.exploit and key is not None and holders and mostly:
            found = self._exploit(asked, key)
        else:
            found = self._explore(asked)
        if self._hot is not None and key is not None:
            found = self._autoscaled(self._hot, asked, key, found, now)
        if self._recent is not None:
            decode = self.fleet.rates.decode(self.fleet.answer_tokens(prompt))
            self._recent.add(found.replica, found.prefill + decode, now)
        return found.replica

    def _exploit(self, asked: _Asked, key: Node) -> _Cost:
        """Return the cheapest of the replicas that hold a prompt's prefix, or a replica with much less load."""
        costs = (self._cost(asked, one) for one in asked.holders)
        best = min(costs, key=lambda cost: (cost.total, cost.replica))
        if not self._is_crowded(asked, key, best, float(asked.load.min()), self._least_extra(asked, key, best)):
            return best  # no other replica can be better: exploring takes most of the time of a decision
        other = self._explore(asked)
        return other if self._is_crowded(asked, key, best, other.load, other.work - best.work, other.replica) else best

    def _is_crowded(
        self, asked: _Asked, key: Node, best: _Cost, load: float, extra: float, replica: int | None = None
    ) -> bool:
        """Return whether a prompt leaves the replica of its prefix for one with this load at this much extra work.

        `replica` is that one; None: any.
        """
        options = self.options
        is_heavy = options.rebalance and best.load > options.rebalance * asked.load.min()
        if is_heavy and best.load - load > options.guard * extra:
            return True
        together = key.open.get(best.replica, 0)
        if not options.crowd or together < 2:
            return False
        waits = self.fleet.waits(asked.now)
        longer = waits[best.replica] - (waits[self.fleet.up].min() if replica is None else waits[replica])
        busy = np.count_nonzero(waits) / len(self.fleet.up)
        return bool(longer > 0 and longer * together > options.crowd * busy * extra)

    def _least_extra(self, asked: _Asked, key: Node, best: _Cost) -> float:
        """Return the least work that a replica without the prefix can add: it holds at most what comes before it."""
        before = key.start * self.fleet.tree.block_tokens
        return self.fleet.rates.prefill(asked.prompt.count - before, before) - best.work

    def _explore(self, asked: _Asked) -> _Cost:
        """Return the replica with the lowest cost; of equal costs, the replica with the fewest cached blocks."""
        return self._cheapest(asked, dict.fromkeys((*_least(asked.load), *asked.holders)))

    def _cheapest(self, asked: _Asked, candidates: Iterable[int]) -> _Cost:
        caches = self.fleet.caches
        costs = sorted(
            (self._cost(asked, one) for one in candidates),
            key=lambda cost: (cost.total, caches[cost.replica].used, cost.replica),
        )
        best = self._evicting(costs[0], asked)
        for cost in costs[1:]:
            if cost.total >= best.total:
                break  # the costs are sorted, and evictions only add to them
            whole = self._evicting(cost, asked)
            if whole.total < best.total:
                best = whole
        if self.options.decode_balance:
            limit = best.total + best.prefill
            decoding = (one for one in costs if one.total < limit and self._only_decodes(one.replica))
            return next(decoding, best)
        return best

    def _autoscaled(self, hot: HotPrefixes, asked: _Asked, key: Node, found: _Cost, now: float) -> _Cost:
        """Return `found`, or a replica without the prompt's prefix if the prefix has become hot."""
        held = key.replicas()
        if found.replica not in held or not hot.waited(key, found.load, self._prefill(key), now):
            return found
        fair = self.fleet.recent * len(held) / len(self.fleet.up)
        others = [one for one in _least(asked.load) if one not in held]
        if not others or sum(key.recent.values()) < self.options.hot * fair:
            return found
        other = self._cheapest(asked, others)
        return other if other.total < found.total else found

    def _prefill(self, node: Node) -> float:
        """Return the seconds to compute the tokens of an edge."""
        return self.fleet.rates.computed * node.blocks * self.fleet.tree.block_tokens

    def _cost(self, asked: _Asked, replica: int) -> _Cost:
        """Return the cost of a prompt on a replica, without evictions."""
        cached, count = self._cached_blocks(asked, replica) * self.fleet.tree.block_tokens, asked.prompt.count
        return _Cost(replica, float(asked.load[replica]), self.fleet.rates.prefill(count - cached, cached), 0.0)

    def _cached_blocks(self, asked: _Asked, replica: int) -> int:
        """Return how many blocks of a prompt the replica's cache serves; it always computes the last token."""
        return max(0, min(asked.cached.get(replica, 0), (asked.prompt.count - 1) // self.fleet.tree.block_tokens))

    def _evicting(self, cost: _Cost, asked: _Asked) -> _Cost:
        """Return a cost with the work that evicting blocks of other prompts will cause."""
        if self.options.eviction == "none":
            return cost
        fleet, replica = self.fleet, cost.replica
        seconds = 0.0
        for node in fleet.caches[replica].victims(asked.leaf.end - self._cached_blocks(asked, replica)):
            requests = node.recent.get(replica, 0)
            if requests:
                times = requests if self.options.eviction == "requests" else (requests - 1) / requests
                seconds += times * self._prefill(node)
        return replace(cost, eviction=seconds)

    def _only_decodes(self, replica: int) -> bool:
        return bool(self.fleet.decode[replica] > _DECODING_SHARE * self.fleet.load[replica])


def _matched(leaf: Node) -> tuple[Node | None, int]:
    """Return the edge with the most cached blocks on a prompt's path, and the cached blocks of the whole path."""
    key, most, matched = None, 0, 0
    for node in leaf.path():
        is_whole = node.open or (1 << node.blocks) - 1 in node.held.values()
        held = node.blocks if is_whole else max(map(node.leading, node.held), default=0)
        matched += held
        if held > most:
            key, most = node, held
        if held < node.blocks:
            break
    return key, matched


def _least(load: NDArray[np.float64], replicas: Iterable[int] | None = None) -> list[int]:
    """Return the least loaded of all, or of the given, replicas that are up; `_CANDIDATES` at most."""
    numbers = np.arange(len(load)) if replicas is None else np.fromiter(replicas, np.int64)
    loads = load[numbers]
    if len(numbers) > _CANDIDATES:
        places = np.argpartition(loads, _CANDIDATES)[:_CANDIDATES]
        numbers, loads = numbers[places], loads[places]
    found: list[int] = numbers[loads < np.inf].tolist()
    return found


def create(fleet: Fleet) -> E2:
    """Return the policy with all of its parts."""
    return E2(fleet)
