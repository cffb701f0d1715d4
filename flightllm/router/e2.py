"""`e2`: exploit what is cached, explore where little is (Preble's E2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from flightllm.router.base import Prompt
from flightllm.router.fleet import Fleet
from flightllm.router.hot_prefixes import HotPrefixes
from flightllm.router.online import OnlineRouter
from flightllm.router.recent_load import RecentLoad
from flightllm.router.tree import Node

_CANDIDATES: Final = 16
"""Replicas whose costs are compared: those with the least load, of all and of those that hold the prefix."""
_DECODING_SHARE: Final = 0.9
"""Of its work that a replica must have in answers to count as busy with these alone."""


@dataclass(frozen=True, slots=True)
class E2Options:
    """The parts of the policy, each of which can be left out, and where it departs from the paper."""

    exploit: bool = True
    load: Literal["open", "window"] = "open"
    """L: the seconds predicted for what a replica has not answered; or as in the paper for all that it was given in the
    window, which a scheduler needs that does not hear of answers."""
    eviction: Literal["reuses", "requests", "none"] = "reuses"
    """M: the prefill of each node that would be evicted, times the share of its requests in the window that were not
    the first, since it is computed anew once, however many ask for it then; or as in the paper times their number."""
    rebalance: float = 1.5
    """Prompts are redirected from a replica with so many times the load of the lightest; 0: never."""
    guard: float = 16.0
    """And only where the loads differ by so many times what it costs to compute there what is cached here, which all
    that come later pay too, the more so the fuller the replicas are. In the paper there is no such guard: 0."""
    autoscale: bool = True
    """A prefix whose prompts wait twice as long as before gets another replica,"""
    hot: float = 0.5
    """if they are so much of what one replica has to answer; else other prefixes can make room. In the paper: 0."""
    decode_balance: bool = True
    """What must be computed goes where only answers are under way, if there it costs less than its prefill more."""


PAPER: Final = E2Options(load="window", eviction="requests", guard=0.0, hot=0.0)
"""As Preble has it."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt, and the replicas as it comes."""

    prompt: Prompt
    leaf: Node
    load: NDArray[np.float64]
    holders: list[int]
    """The least loaded of those that hold the longest part of it."""


@dataclass(frozen=True, slots=True)
class _Cost:
    """Of a prompt on a replica, in seconds."""

    replica: int
    load: float
    prefill: float
    eviction: float

    @property
    def work(self) -> float:
        """Return what computing it costs there."""
        return self.prefill + self.eviction

    @property
    def total(self) -> float:
        """Return L + M + P."""
        return self.load + self.prefill + self.eviction


class E2(OnlineRouter):
    """Where more of a prompt is cached than not: the least loaded replica that holds the longest part of it.

    Else the replica with the lowest L + M + P: its load, the work that evicting others' blocks will cause, and the
    prefill of what it does not hold (Preble, sections 3.1 and 3.2). One thread at a time.
    """

    def __init__(self, fleet: Fleet, options: E2Options | None = None) -> None:
        super().__init__(fleet)
        self.options = options or E2Options()
        self._recent = RecentLoad(fleet.window_seconds) if self.options.load == "window" else None
        self._hot = HotPrefixes(fleet.window_seconds) if self.options.autoscale else None

    def choose(self, prompt: Prompt, leaf: Node, now: float) -> int:
        """Return the replica for a prompt."""
        load = self.fleet.load if self._recent is None else self._recent.load(self.fleet.load, now)
        key, matched = _matched(leaf)
        holders = [] if key is None else _least(load, key.replicas())
        asked = _Asked(prompt, leaf, load, holders)
        mostly = 2 * matched * self.fleet.tree.block_tokens > prompt.count
        if self.options.exploit and key is not None and holders and mostly:
            found = self._exploit(asked)
        else:
            found = self._explore(asked)
        if self._hot is not None and key is not None:
            found = self._autoscaled(self._hot, asked, key, found, now)
        if self._recent is not None:
            decode = self.fleet.rates.decode(self.fleet.answer_tokens(prompt))
            self._recent.add(found.replica, found.prefill + decode, now)
        return found.replica

    def _exploit(self, asked: _Asked) -> _Cost:
        """Return the best of the replicas that hold a prompt's prefix, or one that has much less to do."""
        options = self.options
        costs = (self._cost(asked, one) for one in asked.holders)
        best = min(costs, key=lambda cost: (cost.total, cost.replica))
        if not options.rebalance or best.load <= options.rebalance * asked.load.min():
            return best
        other = self._explore(asked)
        return other if best.load - other.load > options.guard * (other.work - best.work) else best

    def _explore(self, asked: _Asked) -> _Cost:
        """Return the replica with the lowest cost, and of those that cost the same the one with most room."""
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
                break  # nor will what it would evict make it better
            whole = self._evicting(cost, asked)
            if whole.total < best.total:
                best = whole
        if self.options.decode_balance:
            limit = best.total + best.prefill
            decoding = (one for one in costs if one.total < limit and self._only_decodes(one.replica))
            return next(decoding, best)
        return best

    def _autoscaled(self, hot: HotPrefixes, asked: _Asked, key: Node, found: _Cost, now: float) -> _Cost:
        """Return where a prompt goes: to a replica more than those that hold its prefix, if that has become hot."""
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
        """Return the seconds that computing an edge takes."""
        return self.fleet.rates.computed * node.blocks * self.fleet.tree.block_tokens

    def _cost(self, asked: _Asked, replica: int) -> _Cost:
        """Return a prompt's cost without evictions."""
        prompt = asked.prompt
        cached = self.fleet.cached_tokens(prompt, asked.leaf, replica)
        prefill = self.fleet.rates.prefill(prompt.count - cached, cached)
        return _Cost(replica, float(asked.load[replica]), prefill, 0.0)

    def _evicting(self, cost: _Cost, asked: _Asked) -> _Cost:
        """Return a cost with the work that evicting others' blocks will cause."""
        if self.options.eviction == "none":
            return cost
        fleet, replica = self.fleet, cost.replica
        size = fleet.tree.block_tokens
        seconds = 0.0
        cached = fleet.cached_tokens(asked.prompt, asked.leaf, replica) // size
        for node in fleet.caches[replica].victims(asked.leaf.end - cached):
            requests = node.recent.get(replica, 0)
            if requests:
                times = requests if self.options.eviction == "requests" else (requests - 1) / requests
                seconds += times * self._prefill(node)
        return replace(cost, eviction=seconds)

    def _only_decodes(self, replica: int) -> bool:
        return bool(self.fleet.decode[replica] > _DECODING_SHARE * self.fleet.load[replica])


def _matched(leaf: Node) -> tuple[Node | None, int]:
    """Return the edge of which some replica holds most of a prompt, and how many blocks are held in all."""
    key, most, matched = None, 0, 0
    for node in leaf.path():
        held = node.blocks if node.open else max(map(node.leading, node.held), default=0)
        matched += held
        if held > most:
            key, most = node, held
        if held < node.blocks:
            break
    return key, matched


def _least(load: NDArray[np.float64], replicas: Iterable[int] | None = None) -> list[int]:
    """Return the replicas with the least load, of all or of some; none that is down."""
    numbers = np.arange(len(load)) if replicas is None else np.fromiter(replicas, np.int64)
    loads = load[numbers]
    if len(numbers) > _CANDIDATES:
        places = np.argpartition(loads, _CANDIDATES)[:_CANDIDATES]
        numbers, loads = numbers[places], loads[places]
    found: list[int] = numbers[loads < np.inf].tolist()
    return found


def create(fleet: Fleet) -> E2:
    """Make the policy, with all its parts."""
    return E2(fleet)
