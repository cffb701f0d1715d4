"""The state of the replicas: cached blocks, recent requests and remaining work."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import EngineUnavailableError
from flightllm.llm.cost import Rates
from flightllm.router.cache import ReplicaCache
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import TOKEN_BYTES, Node, PrefixTree

WINDOW_SECONDS: Final = 180.0
"""How long a request counts as recent (Preble, H)."""
_SITE_BYTES: Final = 32 * TOKEN_BYTES
"""How much of a prompt's beginning tells its call site: less than the shortest instruction of an AI function."""
_MOST_SITES: Final = 1_024


@dataclass(frozen=True, slots=True)
class Assigned:
    """A prompt that was assigned to a replica and has no answer."""

    prompt: RoutedPrompt
    leaf: Node
    replica: int
    prefill: float
    """Predicted seconds for the prompt, without the tokens that were cached at the time of the assignment."""
    decode: float
    """Predicted seconds for the answer."""
    cached_tokens: int
    at: float
    turn: int
    """The number of the assignment: a prompt with a lower number precedes those with higher ones."""

    @property
    def seconds(self) -> float:
        """Return the predicted seconds for prompt and answer."""
        return self.prefill + self.decode


class Fleet:
    """Replicas by number, from 0 on, and the tree of their prompts' prefixes. One thread at a time.

    `load` has the predicted seconds of each replica's unfinished work, and infinity for a replica that is down. Its
    parts are `prefill` and `decode`.
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
        """The number of unanswered prompts of each replica."""
        self._computed_at: NDArray[np.float64] = np.zeros(0)
        """The predicted time at which each replica has computed all of its prompts, answers left out."""
        self._up: list[int] = []
        self.window_seconds = window_seconds
        self._recent: deque[tuple[float, Node, int]] = deque()
        self._answers: OrderedDict[tuple[int, bytes], tuple[float, float]] = OrderedDict()
        """The sums of answers' tokens and the number of answers, by limit and by call site (see `_sites`)."""
        self._turns = count()

    @property
    def up(self) -> list[int]:
        """Return the replicas that are up.

        Raises:
            EngineUnavailableError: no replica is up.
        """
        if not self._up:
            raise EngineUnavailableError("no replica of the cluster is up")
        return self._up

    @property
    def recent(self) -> int:
        """Return the number of recent requests."""
        return len(self._recent)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the replicas that are up, which can be empty."""
        return tuple(self._up)

    def is_up(self, replica: int) -> bool:
        """Return whether a replica is up."""
        return replica in self._up

    def add(self, capacity: int | None, *, exact: bool = False) -> int:
        """Add a replica whose prefix cache has `capacity` blocks (None: unknown), and return the replica's number.

        With `exact`, `KvMirror` reports the contents of the cache; otherwise they are estimated.
        """
        replica = len(self.caches)
        self.caches.append(ReplicaCache(self.tree, replica, capacity, exact=exact))
        self.load, self.prefill, self.decode = (np.append(a, 0.0) for a in (self.load, self.prefill, self.decode))
        self.requests = np.append(self.requests, 0)
        self._computed_at = np.append(self._computed_at, 0.0)
        self._up.append(replica)
        return replica

    def lose(self, replica: int) -> list[RoutedPrompt]:
        """Mark a replica as down and forget its cached blocks; return its unanswered prompts."""
        self.retire(replica)
        lost = [one.prompt for one in self.open.values() if one.replica == replica]
        for prompt in lost:
            self.withdrawn(prompt.key)
        self.caches[replica].clear()
        return lost

    def retire(self, replica: int) -> None:
        """Choose a replica no longer; it keeps its prompts."""
        if replica in self._up:
            self._up.remove(replica)
        self.load[replica] = np.inf

    def bring_back(self, replica: int) -> None:
        """Mark a replica as up again, with an empty cache."""
        if replica not in self._up:
            self._up.append(replica)
            self._up.sort()
            self.load[replica] = 0.0

    def insert(self, prompt: RoutedPrompt) -> Node:
        """Return the node of the tree at which a prompt's whole blocks end."""
        return self.tree.insert(prompt.tokens, prompt.salt)

    def cached_tokens(self, prompt: RoutedPrompt, leaf: Node, replica: int) -> int:
        """Return how many tokens of a prompt a replica serves from its cache; it always computes the last token."""
        size = self.tree.block_tokens
        return max(0, min(self.tree.cached_blocks(leaf, replica), (prompt.count - 1) // size)) * size

    def answer_tokens(self, prompt: RoutedPrompt) -> float:
        """Return the expected number of tokens of an answer: the mean of earlier answers of the same call site.

        A call site without an answer has the mean of all answers with the same limit.
        """
        for site in _sites(prompt):
            if site in self._answers:
                total, seen = self._answers[site]
                return total / seen
        return float(prompt.answer_tokens)

    def assign(self, prompt: RoutedPrompt, leaf: Node, replica: int, now: float) -> None:
        """Assign a prompt to a replica, which will hold the prompt's blocks."""
        self._expire(now)
        if leaf.unused:
            leaf = self.insert(prompt)  # the leaf can have been pruned since the caller inserted it
        cached = self.cached_tokens(prompt, leaf, replica)
        prefill, decode = self._seconds(prompt, cached)
        self.open[prompt.key] = Assigned(prompt, leaf, replica, prefill, decode, cached, now, next(self._turns))
        self._computed_at[replica] = now + self.waits(now)[replica] + prefill
        self.prefill[replica] += prefill
        self.decode[replica] += decode
        self.load[replica] += prefill + decode
        self.requests[replica] += 1
        for node in leaf.up():
            node.recent[replica] = node.recent.get(replica, 0) + 1
            node.open[replica] = node.open.get(replica, 0) + 1
        self._recent.append((now + self.window_seconds, leaf, replica))
        self.caches[replica].begin(leaf)

    def waits(self, now: float) -> NDArray[np.float64]:
        """Return the predicted seconds until each replica has computed the prompts that it was given so far.

        Unlike `prefill`, this leaves out what has been computed since. Answers are left out too. The open prompts bound
        it, so that errors of earlier predictions do not add up.
        """
        waits: NDArray[np.float64] = np.clip(self._computed_at - now, 0.0, np.maximum(0.0, self.prefill))
        return waits

    def known(self, prompts: Iterable[RoutedPrompt]) -> list[Assigned]:
        """Return the assignments of those of `prompts` that are open."""
        return [self.open[prompt.key] for prompt in prompts if prompt.key in self.open]

    def ahead(self, priority: int) -> NDArray[np.float64]:
        """Return the predicted seconds of each replica's open prompts of this priority or more urgent ones."""
        seconds = np.zeros(len(self.load))
        for one in self.open.values():
            if one.prompt.priority <= priority:
                seconds[one.replica] += one.seconds
        return seconds

    def learn(self, rates: Rates) -> None:
        """Update the predicted seconds of all open prompts with these rates and the latest lengths of answers."""
        self.rates = rates
        self.prefill[:] = self.decode[:] = 0.0
        for key, one in self.open.items():
            prefill, decode = self._seconds(one.prompt, one.cached_tokens)
            self.open[key] = replace(one, prefill=prefill, decode=decode)
            self.prefill[one.replica] += prefill
            self.decode[one.replica] += decode
        self.load = np.where(np.isinf(self.load), np.inf, self.prefill + self.decode)

    def runs(self, prompts: Iterable[RoutedPrompt]) -> dict[int, list[RoutedPrompt]]:
        """Return new prompts by the replica to which they were assigned, in the order in which to queue them."""
        found: defaultdict[int, list[RoutedPrompt]] = defaultdict(list)
        for one in sorted((self.open[prompt.key] for prompt in prompts), key=lambda one: one.turn):
            found[one.replica].append(one.prompt)
        return found

    def held_share(self, prompt: RoutedPrompt) -> float:
        """Return the share of a waiting prompt's tokens that its replica holds now, from 0 to 1.

        Tokens that unanswered prompts are about to compute do not count, because the prompt itself is one of these.
        """
        one = self.open.get(prompt.key)
        if one is None or not prompt.count:
            return 0.0
        blocks = self.tree.cached_blocks(one.leaf, one.replica, expected=False)
        return min(1.0, blocks * self.tree.block_tokens / prompt.count)

    def finished(self, key: int, completion_tokens: int | None = None) -> Assigned:
        """Count a prompt as answered, with the length of the answer where the length is known."""
        if completion_tokens is not None:
            for site in _sites(self.open[key].prompt):
                total, seen = self._answers.pop(site, (0.0, 0.0))
                self._answers[site] = 0.99 * total + completion_tokens, 0.99 * seen + 1
            while len(self._answers) > _MOST_SITES:
                self._answers.popitem(last=False)
        return self._ended(key, computed=True)

    def withdrawn(self, key: int) -> None:
        """Remove an unanswered prompt from its replica; do nothing for a prompt that is not open."""
        if key in self.open:
            self._ended(key, computed=False)

    def _seconds(self, prompt: RoutedPrompt, cached_tokens: int) -> tuple[float, float]:
        """Return the predicted seconds until a prompt's answer begins, and those of the answer."""
        prefill = self.rates.prefill(prompt.count - cached_tokens, cached_tokens)
        return prefill, self.rates.decode(self.answer_tokens(prompt))

    def _ended(self, key: int, *, computed: bool) -> Assigned:
        one = self.open.pop(key)
        replica = one.replica
        self.prefill[replica] -= one.prefill
        self.decode[replica] -= one.decode
        self.requests[replica] -= 1
        if not computed:
            self._computed_at[replica] -= one.prefill
        if not self.requests[replica]:  # remove the rounding error of the sums
            self.prefill[replica] = self.decode[replica] = self._computed_at[replica] = 0.0
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


def _sites(prompt: RoutedPrompt) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    """Return the names under which to keep the lengths of a prompt's answers: its call site, and its limit.

    The prompts of a call site have one limit and begin with one instruction.
    """
    return (prompt.answer_tokens, prompt.tokens[:_SITE_BYTES]), (prompt.answer_tokens, b"")


def _less(counts: dict[int, int], replica: int) -> None:
    left = counts[replica] - 1
    if left:
        counts[replica] = left
    else:
        del counts[replica]
