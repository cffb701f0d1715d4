"""What a router expects its replicas to have cached, to be held against what they had."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from flightllm.model.engine import Completion, Request
from flightllm.router.engine import RoutedEngine
from flightllm.router.fleet import Fleet
from flightllm.router.tree import Node


@dataclass
class Foreseen:
    """Tokens of the prompts that were answered which were expected to be cached, when routed and when sent."""

    when_routed: int = 0
    when_sent: int = 0


def watch(engine: RoutedEngine) -> Foreseen:
    """Have all replicas of an engine counted from now on."""
    found = Foreseen()
    with engine.lock:
        for status in engine.status():
            replica: Any = engine.replica(status.number)
            replica.engine = _Watched(replica.engine, engine, status.number, found)
    return found


@dataclass
class _Watched:
    """A replica's engine, with a look at the tree before each prompt that it is sent."""

    _engine: Any
    _owner: RoutedEngine
    _replica: int
    _found: Foreseen
    _flying: dict[int, tuple[Node, int, int]] = field(default_factory=dict)
    """By key, where a prompt ends in the tree, and what was expected of it when it was routed and when it was sent."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(
        self, requests: Iterator[Request | None], cancelled: Callable[[], bool]
    ) -> Generator[Completion, None, None]:
        """Pass on what the engine answers."""
        answers = cast("Generator[Completion, None, None]", self._engine.generate(self._seen(requests), cancelled))
        with closing(answers):
            for completion in answers:
                self._count(completion)
                yield completion

    def _seen(self, requests: Iterator[Request | None]) -> Iterator[Request | None]:
        for request in requests:
            if request is not None:
                with self._owner.lock:
                    fleet = self._owner.fleet
                    one = fleet.open[request.id]
                    expected = one.cached_tokens  # of an estimated cache nobody knows more
                    if fleet.caches[self._replica].exact:
                        expected = _expected(fleet, one.prompt.count, one.leaf, self._replica, self._flying)
                    self._flying[request.id] = one.leaf, one.cached_tokens, expected
            yield request

    def _count(self, completion: Completion) -> None:
        with self._owner.lock:
            _, routed, sent = self._flying.pop(completion.id)
            self._found.when_routed += routed
            self._found.when_sent += sent


def _expected(fleet: Fleet, tokens: int, leaf: Node, replica: int, flying: dict[int, tuple[Node, int, int]]) -> int:
    """Return how many tokens of a prompt a replica holds, or computes for prompts that it was sent before."""
    begun = {node for other, _, _ in flying.values() for node in other.up()}
    count = 0
    for node in leaf.path():
        held = node.held.get(replica, 0)
        leading = node.blocks if node in begun else min(node.blocks, (~held & (held + 1)).bit_length() - 1)
        count += leading
        if leading < node.blocks:
            break
    size = fleet.tree.block_tokens
    return min(count, (tokens - 1) // size) * size
