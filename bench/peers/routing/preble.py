"""The released Preble scheduler: each prefix belongs to replicas, and moves when their costs drift apart."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from bench.simulation import ObservingRouter
from flightllm.router.fleet import Assigned, Fleet
from flightllm.router.prompt import RoutedPrompt
from flightllm.router.tree import Node, PrefixTree

_WINDOW_SECONDS: Final = 180.0
_HEAVY: Final = 1.5
_FEW: Final = 50
"""No prefix moves before there were so many prompts for each replica."""
_CHAIN: Final = 3
_TOKEN_SECONDS: Final = 0.15
"""The seconds for each token of an answer, before any were measured."""
_KEPT: Final = 200


@dataclass(slots=True)
class _Prefix:
    """The prompts of the window with one large prefix."""

    count: int = 0
    hit: int = 0
    asked: int = 0
    answer_tokens: int = 0
    owners: set[int] = field(default_factory=set)


class Preble(ObservingRouter):
    """The scheduler that Preble's authors released.

    A node is large if it has more tokens than the path above it. A prompt whose last node is large goes to the replica
    with the lowest cost. Another prompt goes to the owner of its path with the lowest cost. A replica's cost is a sum
    over the large nodes of the last three minutes that it owns. One part is miss rate x prompts x prefill seconds /
    owners. The other is unanswered prompts x answer tokens x seconds of a token. If the highest cost is 1.5 times the
    lowest, the cheapest nodes move until the two would change places. The rest is compared in turn.

    Source: github.com/WukLab/preble at 8e7906a, `preble/global_scheduler_with_time.py`, and its default options. Left
    out: splitting the only node of a replica, which needs a detector of long times to the first token.
    """

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._tree = PrefixTree(fleet.tree.block_tokens)
        self._owners: dict[Node, set[int]] = {}
        self._known: dict[Node, _Prefix] = {}
        self._window: deque[tuple[float, Node, int, int]] = deque()
        self._speeds: list[deque[float]] = []
        self._open: dict[int, tuple[Node, float]] = {}
        self._sent = 0

    def choose(self, prompt: RoutedPrompt, leaf: Node, now: float) -> int:
        """Return the owner of a prompt's path, or the replica with the lowest cost."""
        del leaf
        while len(self._speeds) < len(self.fleet.load):
            self._speeds.append(deque([_TOKEN_SECONDS], maxlen=_KEPT))
        before = self._tree.nodes
        last = self._tree.insert(prompt.tokens, prompt.salt)
        if self._tree.nodes > before:
            self._inherit(last)
        everyone = set(range(len(self.fleet.load)))
        large = next((node for node in last.up() if _is_large(node)), last)
        if _is_large(last):
            among = everyone
        else:
            among = next((self._owners[node] for node in last.up() if self._owners.get(node)), everyone)
        chosen = next(iter(among)) if len(among) == 1 else self._cheapest(among)
        new = last.blocks if last not in self._owners else 0
        for node in last.up():
            self._owners.setdefault(node, set()).add(chosen)
            node.open[chosen] = node.open.get(chosen, 0) + 1
        self._count(large, prompt, last.end - new, last.end, now)
        self._open[prompt.key] = last, now
        self._sent += 1
        depth = sum(1 for _ in last.up()) - sum(1 for _ in large.up())
        if self._sent >= _FEW * len(everyone) and depth < _CHAIN:
            self._rebalance()
        return chosen

    def _inherit(self, last: Node) -> None:
        """Give a node that a split made the owners of the node below it."""
        above = last.parent
        if above is not None and above.parent is not None and above not in self._owners:
            below = next((node for node in above.children.values() if node in self._owners), None)
            if below is not None:
                self._owners[above] = set(self._owners[below])
                if below in self._known and _is_large(above) and not _is_large(below):
                    self._known[above] = self._known.pop(below)
                    self._window = deque(
                        (at, above if node is below else node, hit, asked) for at, node, hit, asked in self._window
                    )

    def _count(self, large: Node, prompt: RoutedPrompt, hit: int, asked: int, now: float) -> None:
        known = self._known.setdefault(large, _Prefix())
        known.count += 1
        known.hit += hit
        known.asked += asked
        known.answer_tokens = prompt.answer_tokens
        self._window.append((now + _WINDOW_SECONDS, large, hit, asked))
        while self._window[0][0] <= now:
            _, node, hit, asked = self._window.popleft()
            old = self._known[node]
            old.count, old.hit, old.asked = old.count - 1, old.hit - hit, old.asked - asked
            if not old.count:
                del self._known[node]
                self._owners[node] = set()

    def _cost(self, node: Node, known: _Prefix, replica: int) -> float:
        """Return what the prompts of a prefix cost its owner, in seconds."""
        missed = 1.0 - known.hit / max(1, known.asked)
        prefill = self.fleet.rates.prefill(node.blocks * self._tree.block_tokens)
        speeds = sorted(self._speeds[replica])
        answer = node.open.get(replica, 0) * known.answer_tokens * speeds[len(speeds) // 2]
        return missed * known.count * prefill / max(1, len(self._owners[node])) + answer

    def _costs(self, fewest: int) -> list[float]:
        costs = [0.0] * len(self.fleet.load)
        for node, known in self._known.items():
            if known.count >= fewest:
                for replica in self._owners[node]:
                    costs[replica] += self._cost(node, known, replica)
        return costs

    def _cheapest(self, among: set[int]) -> int:
        costs = self._costs(1)
        return min(among, key=lambda replica: (costs[replica], replica))

    def _rebalance(self) -> None:
        ranked = sorted(((cost, replica) for replica, cost in enumerate(self._costs(2))), reverse=True)
        low, least = ranked[-1]
        for high, most in ranked[:-1]:
            if high < _HEAVY * low:
                return
            low = self._move(high, most, low, least)

    def _move(self, high: float, most: int, low: float, least: int) -> float:
        """Move the cheapest prefixes between two replicas; return the new cost of the one that takes them."""
        owned = [
            (self._cost(node, known, most), number, node)
            for number, (node, known) in enumerate(self._known.items())
            if most in self._owners[node] and known.count > 1
        ]
        if len(owned) < 2:
            return low
        for cost, _, node in sorted(owned):
            if high - cost < low + cost:
                break
            high, low = high - cost, low + cost
            below = [node]
            for one in below:
                self._owners[one] = {least}
                below += one.children.values()
            if high < _HEAVY * low:
                break
        return low

    def answering(self, key: int, now: float) -> None:
        """Note the time of the first token."""
        self._open[key] = self._open[key][0], now

    def answered(self, one: Assigned, tokens: int, now: float) -> None:
        """Learn the speed of a replica."""
        last, first = self._open.pop(one.prompt.key)
        for node in last.up():
            left = node.open.get(one.replica, 0) - 1
            if left > 0:
                node.open[one.replica] = left
            else:
                node.open.pop(one.replica, None)
        if tokens > 1:
            self._speeds[one.replica].append((now - first) / (tokens - 1))


def _is_large(node: Node) -> bool:
    return node.blocks > node.start
