"""Workloads for a KV cache: a trace's prompts one by one, or SQL queries side by side with interactive prompts.

A query's prompts are those of our own queries, in the planner's order (`bench.prompt_streams`), cut into blocks of 16
tokens. Interactive prompts are random. Each call site has its own instruction. A prompt is about a row that comes only
once, belongs to a dashboard that is opened again, or continues an earlier prompt. Prompts arrive at Azure's times.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count, pairwise, takewhile
from typing import Final

import numpy as np
import pyarrow.parquet as pq

from bench.common import data_table
from bench.prompt_streams import Stream, streams
from bench.router_workloads import azure
from flightllm.engines.prefix import chained
from flightllm.kvcache.eviction.base import Use

MIXES: Final = {
    "2 queries": ("movies q1", "products q2"),
    "3 queries": ("movies q2", "products q4", "beer q1"),
    "4 queries": ("movies q4", "products q1", "beer q2", "squad q5"),
}
"""Groups of queries that run side by side."""
ALONE: Final = ("movies q1", "movies q2", "movies q3", "movies q4", "squad q5")
_BLOCK_BYTES: Final = 4 * 16
AT_ONCE: Final = 16
"""The number of prompts that run at once."""
WINDOW: Final = 64
"""The number of a query's prompts that its client keeps waiting in the engine."""
_SECONDS: Final = 0.1
_MOST: Final = 8_000
"""The number of interactive prompts that do not continue others."""
WARM_SECONDS: Final = 300.0
"""The time before the queries begin, with interactive prompts only."""
_BLOCK_SECONDS: Final = 8e-3
"""Seconds per block of a prompt, added to `_SECONDS`, whether the block is cached or not.

Cached blocks save no time here, so the order of prompts does not depend on the policy.
"""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's blocks and the hints for them.

    `at` is the second at which an interactive prompt arrives; a query's prompts follow one another instead.
    """

    use: Use[int]
    at: float = 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds that the prompt runs."""
        return _SECONDS + _BLOCK_SECONDS * len(self.use.keys)


class What(Enum):
    """The kind of an event of a prompt."""

    WAITS = auto()
    BEGINS = auto()
    ENDS = auto()
    PASSES = auto()
    """The prompt begins and ends before any other event."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a prompt, at some second."""

    at: float
    what: What
    use: Use[int]


def mooncake(most: int | None = None) -> list[Event]:
    """Return the Mooncake conversation trace, one prompt after another. A block has 512 tokens.

    Raises:
        FileNotFoundError: there is no such table; see `bench.common.data_table`.
    """
    table = pq.read_table(data_table("mooncake_conversation_trace"), columns=["timestamp", "hash_ids"])
    rows = table.slice(0, most).to_pylist()
    return [Event(row["timestamp"] / 1_000, What.PASSES, Use(row["hash_ids"])) for row in rows]


def query(name: str, rows: int) -> list[Prompt]:
    """Return the prompts of a query over `rows` rows. `name` is the topic and the query's name.

    Raises:
        FileNotFoundError: there is no such table; see `bench.common.data_table`.
    """
    topic, _, which = name.partition(" ")
    return bulk(streams(topic, (which,), rows)[0])


def bulk(stream: Stream) -> list[Prompt]:
    """Return a query's prompts, each with the number of its blocks that the next prompt of its call site shares."""
    passes: dict[str, list[list[int]]] = defaultdict(list)
    for asked in stream.prompts:
        whole = range(0, len(asked.tokens) - _BLOCK_BYTES + 1, _BLOCK_BYTES)
        parts = (asked.tokens[start : start + _BLOCK_BYTES] for start in whole)
        passes[asked.call].append([hash(block) for block in chained(parts)])
    found = []
    for call, prompts in passes.items():
        for number, (keys, later) in enumerate(pairwise([*prompts, []])):
            ahead = _shared(keys, later) if later else None
            found.append(Prompt(Use(keys, call, ahead, (stream.name, call), number)))
    return found


@dataclass(frozen=True, slots=True)
class Interactive:
    """Call sites with a frequency by Zipf's law. All prompts of a call site begin with its instruction.

    A third of the sites asks about rows that come only once. Another third mostly repeats prompts of its dashboards. In
    the last third, most prompts are followed by another prompt that begins with the whole first one.
    """

    sites: int = 12
    rate: float = 3.0
    """Prompts a second, without the prompts that continue others."""
    table: str = "azure_trace_conv"
    again: float = 0.5
    dashboards: int = 8
    """The number of dashboards of each site."""
    think: float = 20.0
    """The mean seconds until the prompt that continues another one."""

    def __call__(self, seed: int) -> Iterator[Prompt]:
        """Yield prompts in the order of their times."""
        drawn, fresh = np.random.default_rng(seed), count(1)
        instructions = [_new(fresh, drawn) for _ in range(self.sites)]
        known = [[[*one, *_new(fresh, drawn)] for _ in range(self.dashboards)] for one in instructions]
        weights = np.arange(1, self.sites + 1) ** -1.1
        weights /= weights.sum()
        later: list[tuple[float, int, list[int]]] = []
        for at in azure(self.table, drawn, _MOST, self.rate):
            while later and later[0][0] <= at:
                yield self._prompt(*heapq.heappop(later), drawn, fresh, later)
            site = int(drawn.choice(self.sites, p=weights))
            if site % 3 == 0 and drawn.random() < self.again:
                yield Prompt(_asked(known[site][drawn.integers(self.dashboards)], site), at)
            else:
                yield self._prompt(at, site, instructions[site], drawn, fresh, later)

    def _prompt(
        self,
        at: float,
        site: int,
        start: list[int],
        drawn: np.random.Generator,
        fresh: Iterator[int],
        later: list[tuple[float, int, list[int]]],
    ) -> Prompt:
        keys = [*start, *_new(fresh, drawn)]
        if site % 3 == 1 and drawn.random() < self.again:
            heapq.heappush(later, (at + drawn.exponential(self.think), site, keys))
        return Prompt(_asked(keys, site), at)


def run(queries: Sequence[Sequence[Prompt]], others: Iterator[Prompt], blocks: int) -> Iterator[Event]:
    """Yield the events of queries that run side by side until all have ended, with `blocks` blocks.

    Each query's client keeps a window of prompts waiting. The queries take turns, and interactive prompts go first. A
    prompt begins when a slot is free and its blocks fit beside the blocks of the running prompts.
    """
    engine = _Engine(queries, others, blocks)
    while engine.busy:
        yield from engine.step()


class _Engine:
    def __init__(self, queries: Sequence[Sequence[Prompt]], others: Iterator[Prompt], blocks: int) -> None:
        self._left = [iter(prompts) for prompts in queries]
        self._waiting: deque[tuple[int, Prompt]] = deque()
        self._urgent: deque[Prompt] = deque()
        self._running: list[tuple[float, int, Prompt]] = []
        self._held: Counter[int] = Counter()
        self._others, self._blocks = others, blocks
        self._coming = next(others, None)
        self._now, self._count, self._bulk = 0.0, count(), 0
        self._new = [lane for _ in range(WINDOW) for lane in range(len(queries))]

    @property
    def busy(self) -> bool:
        """Return whether any query has prompts left."""
        return bool(self._new or self._waiting or self._bulk)

    def step(self) -> Iterator[Event]:
        """Accept waiting prompts, begin those that fit, and advance to the next end or arrival."""
        yield from self._fill()
        while self._urgent or self._waiting:
            lane, prompt = (-1, self._urgent[0]) if self._urgent else self._waiting[0]
            if not self._fits(prompt):
                break
            (self._urgent if lane < 0 else self._waiting).popleft()
            self._held.update(prompt.use.keys)
            heapq.heappush(self._running, (self._now + prompt.seconds, next(self._count), prompt))
            yield Event(self._now, What.BEGINS, prompt.use)
            if lane >= 0:
                self._bulk += 1
                self._new.append(lane)
                yield from self._fill()
        yield from self._go_on()

    def _fill(self) -> Iterator[Event]:
        if self._coming and self._now < WARM_SECONDS:
            return
        for lane in self._new:
            if prompt := next(self._left[lane], None):
                self._waiting.append((lane, prompt))
                yield Event(self._now, What.WAITS, prompt.use)
        self._new.clear()

    def _fits(self, prompt: Prompt) -> bool:
        more = sum(key not in self._held for key in prompt.use.keys)
        return not self._running or (len(self._running) < AT_ONCE and len(self._held) + more <= self._blocks)

    def _go_on(self) -> Iterator[Event]:
        if self._coming and (not self._running or self._coming.at <= self._running[0][0]):
            self._now = max(self._now, self._coming.at)
            self._urgent.append(self._coming)
            yield Event(self._now, What.WAITS, self._coming.use)
            self._coming = next(self._others, None)
        elif self._running:
            self._now, _, prompt = heapq.heappop(self._running)
            for key in prompt.use.keys:
                self._held[key] -= 1
                if not self._held[key]:
                    del self._held[key]
            self._bulk -= prompt.use.query is not None
            yield Event(self._now, What.ENDS, prompt.use)


def _asked(keys: Sequence[int], site: int) -> Use[int]:
    return Use(keys, f"site {site}", priority=-1)


def _shared(keys: Sequence[int], later: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(keys, later, strict=False)))


def _new(fresh: Iterator[int], drawn: np.random.Generator) -> list[int]:
    return [next(fresh) for _ in range(int(drawn.integers(4, 33)))]
