"""The cached tokens that a router expects of its replicas, to compare with the tokens that were cached."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, cast

from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.llm.engine import Completion, Request
from flightllm.router.engine import RoutedEngine
from flightllm.router.fleet import Fleet
from flightllm.router.tree import Node


@dataclass
class Foreseen:
    """The tokens of answered prompts that the router expected to be cached.

    The router has one expectation when it routes a prompt, and another when it sends it.
    """

    when_routed: int = 0
    when_sent: int = 0


def watch(engine: RoutedEngine) -> Foreseen:
    """Count the expected tokens of all replicas of an engine from now on."""
    found = Foreseen()
    with engine.lock:
        for status in engine.status():
            replica: Any = engine.replica(status.number)
            replica.engine = _Watched(replica.engine, engine, status.number, found)
    return found


@dataclass
class _Watched(ForwardedExtras):
    """A replica's engine that looks the tree up before it sends each prompt."""

    _engine: Any
    _owner: RoutedEngine
    _replica: int
    _found: Foreseen
    _flying: dict[int, tuple[Node, int, int]] = field(default_factory=dict)
    """For each key: the prompt's last node in the tree, and its expected tokens when it was routed and when it was
    sent.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return question(extras_of(self._engine))

    def generate(
        self, requests: Iterator[Request | None], cancelled: Callable[[], bool]
    ) -> Generator[Completion, None, None]:
        """Yield the engine's answers unchanged."""
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
                    expected = one.cached_tokens  # an estimated cache has no better figure
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
    """Return the tokens of a prompt that a replica holds, or computes for prompts that it received earlier."""
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
