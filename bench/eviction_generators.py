"""Generated workloads of different shape for a KV cache, by seed: each is one entry of `GENERATORS`.

Prompts pass one after another, about three a second. A block has no fixed number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.eviction_workloads import Event, What
from flightllm.kvcache.eviction.base import Use

_RATE: Final = 3.0
"""Prompts a second."""


def _weights(count_: int, exponent: float) -> NDArray[np.float64]:
    weights: NDArray[np.float64] = np.arange(1, count_ + 1, dtype=np.float64)
    weights **= -exponent
    weights /= weights.sum()
    return weights


def _new(fresh: Iterator[int], count_: int) -> list[int]:
    return [next(fresh) for _ in range(count_)]


def _events(prompts: Sequence[Sequence[int]], drawn: np.random.Generator) -> list[Event]:
    times = drawn.exponential(1 / _RATE, len(prompts)).cumsum().tolist()
    return [Event(at, What.PASSES, Use(keys)) for at, keys in zip(times, prompts, strict=True)]


@dataclass(frozen=True, slots=True)
class Phases:
    """Work that changes: a hot set, a scan of new prompts, a loop, and conversations, in turn.

    Each phase uses other blocks than the phases before, but the hot set comes back.
    """

    prompts: int = 8_000
    phase: int = 1_000
    hot: int = 300
    loop: int = 400

    def __call__(self, seed: int) -> list[Event]:
        """Return the prompts."""
        drawn, fresh = np.random.default_rng(seed), count()
        system = _new(fresh, 2)
        hot = [[*system, *_new(fresh, int(drawn.integers(4, 20)))] for _ in range(self.hot)]
        weights = _weights(self.hot, 0.9)
        found: list[list[int]] = []
        for number in range(self.prompts // self.phase):
            kind = number % 4
            loop = [[*system, *_new(fresh, 10)] for _ in range(self.loop)]
            talks: list[list[int]] = []
            for place in range(self.phase):
                if kind == 0 or drawn.random() < 0.2:
                    found.append(hot[int(drawn.choice(self.hot, p=weights))])
                elif kind == 1:
                    found.append([*system, *_new(fresh, int(drawn.integers(4, 20)))])
                elif kind == 2:
                    found.append(loop[place % self.loop])
                else:
                    old = talks.pop(int(drawn.integers(len(talks)))) if len(talks) > 60 else system
                    talks.append([*old, *_new(fresh, int(drawn.integers(2, 8)))])
                    found.append(talks[-1])
                    if drawn.random() < 0.2:
                        talks.pop()
        return _events(found, drawn)


@dataclass(frozen=True, slots=True)
class Documents:
    """Questions about documents, which Zipf's law draws: an instruction, one to three documents, and a question.

    The popularity of documents drifts: a document takes another's place now and then.
    """

    prompts: int = 8_000
    documents: int = 1_500
    exponent: float = 0.9
    drift: float = 0.02

    def __call__(self, seed: int) -> list[Event]:
        """Return the prompts."""
        drawn, fresh = np.random.default_rng(seed), count()
        instruction = _new(fresh, 3)
        weights = _weights(self.documents, self.exponent)
        order = drawn.permutation(self.documents)
        sizes = drawn.integers(4, 16, self.documents)
        blocks: dict[tuple[int, ...], list[int]] = {(): instruction}
        found = []
        for _ in range(self.prompts):
            if drawn.random() < self.drift:
                one, other = drawn.integers(self.documents, size=2)
                order[one], order[other] = order[other], order[one]
            path: tuple[int, ...] = ()
            keys = list(instruction)
            for _ in range(int(drawn.choice(3, p=[0.6, 0.3, 0.1])) + 1):
                document = int(order[drawn.choice(self.documents, p=weights)])
                path = (*path, document)
                if path not in blocks:
                    blocks[path] = _new(fresh, int(sizes[document]))
                keys += blocks[path]
            found.append([*keys, *_new(fresh, int(drawn.integers(1, 4)))])
        return _events(found, drawn)


@dataclass(frozen=True, slots=True)
class Agents:
    """Agents, whose prompts grow with each step; some steps branch from an earlier prompt, and agents end.

    An agent steps again soon, or waits for a person. All agents of a kind share their instruction and tools.
    """

    prompts: int = 8_000
    agents: int = 40
    kinds: int = 5
    steps: int = 25

    def __call__(self, seed: int) -> list[Event]:
        """Return the prompts."""
        drawn, fresh = np.random.default_rng(seed), count()
        starts = [_new(fresh, int(drawn.integers(6, 24))) for _ in range(self.kinds)]
        weights = _weights(self.kinds, 0.8)

        def begun() -> list[list[int]]:
            return [[*starts[int(drawn.choice(self.kinds, p=weights))], *_new(fresh, int(drawn.integers(1, 6)))]]

        agents = [begun() for _ in range(self.agents)]
        speeds = drawn.gamma(0.7, size=self.agents) + 0.01
        found = []
        for _ in range(self.prompts):
            which = int(drawn.choice(self.agents, p=speeds / speeds.sum()))
            if drawn.random() < 1 / self.steps:
                agents[which], speeds[which] = begun(), drawn.gamma(0.7) + 0.01
            else:
                history = agents[which]
                branch = drawn.random() < 0.1
                base = history[int(drawn.integers(len(history)))] if branch else history[-1]
                history.append([*base, *_new(fresh, int(drawn.integers(1, 5)))])
            found.append(agents[which][-1])
        return _events(found, drawn)


@dataclass(frozen=True, slots=True)
class Scans:
    """Loops and scans beside a hot set: the loop is longer than most caches, and a scan's prompts come once."""

    prompts: int = 8_000
    hot: int = 200
    loop: int = 700
    looping: float = 0.35
    scanning: float = 0.25

    def __call__(self, seed: int) -> list[Event]:
        """Return the prompts."""
        drawn, fresh = np.random.default_rng(seed), count()
        starts = [_new(fresh, 2) for _ in range(3)]
        hot = [[*starts[0], *_new(fresh, int(drawn.integers(3, 12)))] for _ in range(self.hot)]
        loop = [[*starts[1], *_new(fresh, int(drawn.integers(3, 12)))] for _ in range(self.loop)]
        weights = _weights(self.hot, 0.7)
        found, place = list[list[int]](), 0
        while len(found) < self.prompts:
            turn = drawn.random()
            run = int(drawn.integers(1, 30))
            if turn < self.looping:
                found += [loop[(place + step) % self.loop] for step in range(run)]
                place += run
            elif turn < self.looping + self.scanning:
                found += [[*starts[2], *_new(fresh, int(drawn.integers(3, 12)))] for _ in range(run)]
            else:
                found += [hot[int(drawn.choice(self.hot, p=weights))] for _ in range(run)]
        return _events(found[: self.prompts], drawn)


GENERATORS: Final[Mapping[str, Callable[[int], list[Event]]]] = {
    "phases": Phases(),
    "documents": Documents(),
    "agents": Agents(),
    "scans": Scans(),
}
"""The generators by name; each returns a workload for a seed."""
