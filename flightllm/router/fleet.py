"""What is known of the replicas: what they hold, what they were asked lately, and what they still have to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import EngineUnavailableError
from flightllm.model.cost import Rates
from flightllm.router.base import Prompt
from flightllm.router.cache import ReplicaCache
from flightllm.router.tree import Node, PrefixTree

WINDOW_SECONDS: Final = 180.0
"""How long a request counts as recent (Preble, H)."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A prompt that a replica has been given and has not answered."""

    prompt: Prompt
    leaf: Node
    replica: int
    prefill: float
    """Seconds predicted for what was not cached when it was assigned."""
    decode: float
    cached_tokens: int
    at: float
    turn: int
    """Counts up: the lower one waits before the higher one."""

    @property
    def seconds(self) -> float:
        """Return what it takes in all, as predicted."""
        return self.prefill + self.decode


class Fleet:
    """Replicas by number, from 0 on, and the tree of what they share. One thread at a time.

    `load` has the predicted seconds of the work that each replica has been given and not finished, infinite where it
    is down; `prefill` and `decode` are its parts.
    """

    def __init__(self, block_tokens: int, rates: Rates | None = None, window_seconds: float = WINDOW_SECONDS) -> None:
        self.tree = PrefixTree(block_tokens)
        self.rates = rates or Rates()
        self.caches: list[ReplicaCache] = []
        self.open: dict[int, Assigned] = {}
        self.load: NDArray[np.float64] = np.zeros(0)
        self.prefill: NDArray[np.float64] = np.zeros(0)
        self.decode: NDArray[np.float64] = np.zeros(0)
        self.requests: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Prompts given and not answered."""
        self._up: list[int] = []
        self.window_seconds = window_seconds
        self._recent: deque[tuple[float, Node, int]] = deque()
        self._answers: dict[int, tuple[float, float]] = {}
        self._turns = count()

    @property
    def up(self) -> list[int]:
        """Return the replicas that can be asked.

        Raises:
            EngineUnavailableError: there is none.
        """
        if not self._up:
            raise EngineUnavailableError("no replica of the cluster is up")
        return self._up

    @property
    def recent(self) -> int:
        """Return how many requests are recent."""
        return len(self._recent)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the replicas that can be asked, none where there is none."""
        return tuple(self._up)

    def is_up(self, replica: int) -> bool:
        """Tell whether a replica can be asked."""
        return replica in self._up

    def add(self, capacity: int | None, *, exact: bool = False) -> int:
        """Add a replica whose prefix cache has so many blocks (None: unknown), and return its number.

        With `exact` its cache is what `KvMirror` says; else it is estimated.
        """
        replica = len(self.caches)
        self.caches.append(ReplicaCache(self.tree, replica, capacity, exact=exact))
        self.load, self.prefill, self.decode = (np.append(a, 0.0) for a in (self.load, self.prefill, self.decode))
        self.requests = np.append(self.requests, 0)
        self._up.append(replica)
        return replica

    def lose(self, replica: int) -> list[Prompt]:
        """Take a replica out of use and forget what it held; return the prompts that it had not answered."""
        self.retire(replica)
        lost = [one.prompt for one in self.open.values() if one.replica == replica]
        for prompt in lost:
            self.withdrawn(prompt.key)
        self.caches[replica].clear()
        return lost

    def retire(self, replica: int) -> None:
        """Choose a replica no more; it keeps what it was given."""
        if replica in self._up:
            self._up.remove(replica)
        self.load[replica] = np.inf

    def bring_back(self, replica: int) -> None:
        """Put a replica into use again, with an empty cache."""
        if replica not in self._up:
            self._up.append(replica)
            self._up.sort()
            self.load[replica] = 0.0

    def insert(self, prompt: Prompt) -> Node:
        """Return the node of the tree at which a prompt's whole blocks end."""
        return self.tree.insert(prompt.tokens, prompt.salt)

    def cached_tokens(self, prompt: Prompt, leaf: Node, replica: int) -> int:
        """Return how many tokens of a prompt a replica need not compute; the last one it always does."""
        size = self.tree.block_tokens
        return max(0, min(self.tree.cached_blocks(leaf, replica), (prompt.count - 1) // size)) * size

    def answer_tokens(self, prompt: Prompt) -> float:
        """Return how many tokens an answer will have: the mean of those seen with the same limit."""
        total, seen = self._answers.get(prompt.answer_tokens, (0.0, 0.0))
        return total / seen if seen else float(prompt.answer_tokens)

    def assign(self, prompt: Prompt, leaf: Node, replica: int, now: float) -> None:
        """Count a prompt as given to a replica, which will hold its blocks."""
        self._expire(now)
        if leaf.unused:
            leaf = self.insert(prompt)  # it may have been pruned since it was found
        cached = self.cached_tokens(prompt, leaf, replica)
        prefill, decode = self._seconds(prompt, cached)
        self.open[prompt.key] = Assigned(prompt, leaf, replica, prefill, decode, cached, now, next(self._turns))
        self.prefill[replica] += prefill
        self.decode[replica] += decode
        self.load[replica] += prefill + decode
        self.requests[replica] += 1
        for node in leaf.up():
            node.recent[replica] = node.recent.get(replica, 0) + 1
            node.open[replica] = node.open.get(replica, 0) + 1
        self._recent.append((now + self.window_seconds, leaf, replica))
        self.caches[replica].begin(leaf)

    def known(self, prompts: Iterable[Prompt]) -> list[Assigned]:
        """Return what was made of those of some prompts that are open."""
        return [self.open[prompt.key] for prompt in prompts if prompt.key in self.open]

    def ahead(self, priority: int) -> NDArray[np.float64]:
        """Return the predicted seconds of each replica's open prompts of this priority or more urgent ones."""
        seconds = np.zeros(len(self.load))
        for one in self.open.values():
            if one.prompt.priority <= priority:
                seconds[one.replica] += one.seconds
        return seconds

    def learn(self, rates: Rates) -> None:
        """Predict anew what all open prompts take, by these rates and by the answers seen since they were assigned."""
        self.rates = rates
        self.prefill[:] = self.decode[:] = 0.0
        for key, one in self.open.items():
            prefill, decode = self._seconds(one.prompt, one.cached_tokens)
            self.open[key] = replace(one, prefill=prefill, decode=decode)
            self.prefill[one.replica] += prefill
            self.decode[one.replica] += decode
        self.load = np.where(np.isinf(self.load), np.inf, self.prefill + self.decode)

    def queued(self, prompts: Collection[Prompt]) -> tuple[list[Assigned], float]:
        """Return what was made of prompts just assigned, in the order in which they are to be queued, and their share.

        That is the part of the tokens of all of them that was cached: prompts that come together stay in their order,
        in which they share most.
        """
        assigned = sorted((self.open[prompt.key] for prompt in prompts), key=lambda one: one.turn)
        return assigned, sum(one.cached_tokens for one in assigned) / max(1, sum(prompt.count for prompt in prompts))

    def finished(self, key: int, completion_tokens: int | None = None) -> Assigned:
        """Count a prompt as answered, with the length of its answer where that is known."""
        if completion_tokens is not None:
            limit = self.open[key].prompt.answer_tokens
            total, seen = self._answers.get(limit, (0.0, 0.0))
            self._answers[limit] = 0.99 * total + completion_tokens, 0.99 * seen + 1
        return self._ended(key, computed=True)

    def withdrawn(self, key: int) -> None:
        """Count a prompt as taken away from its replica, unanswered; one that is not there is passed over."""
        if key in self.open:
            self._ended(key, computed=False)

    def _seconds(self, prompt: Prompt, cached_tokens: int) -> tuple[float, float]:
        """Return what a prompt takes until its answer begins, and what its answer takes."""
        prefill = self.rates.prefill(prompt.count - cached_tokens, cached_tokens)
        return prefill, self.rates.decode(self.answer_tokens(prompt))

    def _ended(self, key: int, *, computed: bool) -> Assigned:
        one = self.open.pop(key)
        replica = one.replica
        self.prefill[replica] -= one.prefill
        self.decode[replica] -= one.decode
        self.requests[replica] -= 1
        if not self.requests[replica]:  # what rounding left
            self.prefill[replica] = self.decode[replica] = 0.0
        if self.load[replica] < np.inf:
            self.load[replica] = self.prefill[replica] + self.decode[replica]
        cache = self.caches[replica]
        for node in one.leaf.up():
            _less(node.open, replica)
            cache.end(node, computed=computed)
        cache.trim()
        self.tree.prune(one.leaf)
        return one

    def _expire(self, now: float) -> None:
        """Forget requests that are no longer recent."""
        while self._recent and self._recent[0][0] <= now:
            _, leaf, replica = self._recent.popleft()
            for node in leaf.up():
                _less(node.recent, replica)
            self.tree.prune(leaf)


def _less(counts: dict[int, int], replica: int) -> None:
    left = counts[replica] - 1
    if left:
        counts[replica] = left
    else:
        del counts[replica]
