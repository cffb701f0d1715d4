"""Workloads for the router's simulation: prompts and their times of arrival, by seed.

Each workload is one entry of `WORKLOADS`. A stream of prompts that arrive together has one time for all arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import cycle, islice
from pathlib import Path
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.common import data_table
from bench.prompt_streams import streams
from bench.router_traces import part, read_trace
from bench.simulation import Arrival

BLOCK_TOKENS: Final = 16
_SYSTEM_TOKENS: Final = 128
_TRACE_RATE: Final = 0.5
_TRACE_BLOCKS: Final = 2_000
_TRACE_BLOCK_TOKENS: Final = 512
_WAVE: Final = 1_024
"""The number of prompts that are generated together."""

Prompts: TypeAlias = Callable[[np.random.Generator], Iterator[tuple[bytes, int]]]
"""An endless iterator over the tokens of a prompt and the length of its answer."""
Times: TypeAlias = Callable[[np.random.Generator, int, float], Iterator[float]]
"""The arrival times of a number of prompts, in seconds, at a mean rate."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts with their arrival times, and the replicas that answer them."""

    arrivals: Callable[[int, int, float], Iterator[Arrival]]
    """Returns the arrivals for a seed, a number of prompts and a mean rate a second."""
    rate: float
    """The prompts a second for each replica: close to the limit of its simulated engine."""
    cache_blocks: int
    """The cache blocks of each replica."""
    block_tokens: int = BLOCK_TOKENS
    table: str | None = None
    """The table that it needs in FLIGHTLLM_DATA."""

    @classmethod
    def of_trace(cls, path: Path) -> Self:
        """Return the prompts of a trace's file, with the rate and the cache of the Mooncake trace.

        Raises:
            TraceError: the file is not a trace.
        """
        prompts, size = read_trace(path)
        return cls(partial(part, prompts), _TRACE_RATE, _TRACE_BLOCKS * _TRACE_BLOCK_TOKENS // size, size)


@dataclass(frozen=True, slots=True)
class Tools:
    """Prompts of agents: a system prompt, the documentation of a tool, and a new question.

    The tool is drawn by Zipf's law. Lengths vary by half around their means.
    """

    tools: int = 100
    exponent: float = 1.1
    documentation_tokens: int = 1_400
    question_tokens: int = 250
    answer_tokens: int = 40

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts."""
        weights = np.arange(1, self.tools + 1) ** -self.exponent
        weights /= weights.sum()
        system = _text(random, _SYSTEM_TOKENS)
        lengths = _around(random, self.documentation_tokens, self.tools)
        documentation = [_text(random, length) for length in lengths.tolist()]
        while True:
            chosen = random.choice(self.tools, _WAVE, p=weights).tolist()
            questions = _around(random, self.question_tokens, _WAVE).tolist()
            answers = _around(random, self.answer_tokens, _WAVE).tolist()
            for tool, question, answer in zip(chosen, questions, answers, strict=True):
                yield system + documentation[tool] + _text(random, question), answer


@dataclass(frozen=True, slots=True)
class Batch:
    """The prompts of SQL queries, each over rows in the planner's order: an instruction, a parent row and a row.

    A parent row has a number of rows by a power law. Queries come one after the other, each with its own instruction.
    """

    rows: int = 512
    """The rows of each query."""
    parent_tokens: int = 300
    row_tokens: int = 120
    answer_tokens: int = 12
    exponent: float = 1.8

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts."""
        while True:
            start, left = _text(random, _SYSTEM_TOKENS), self.rows
            while left:
                children = min(left, int(random.zipf(self.exponent)))
                parent = start + _text(random, int(_around(random, self.parent_tokens, 1)[0]))
                lengths = _around(random, self.row_tokens, children).tolist()
                answers = _around(random, self.answer_tokens, children).tolist()
                for length, answer in zip(lengths, answers, strict=True):
                    yield parent + _text(random, length), answer
                left -= children


@dataclass(frozen=True, slots=True)
class Crowds:
    """Tools, and crowds: of each `cycle` prompts, the first `crowd` ask one new tool, beside `others` of ten others."""

    tools: Tools = Tools()
    cycle: int = 400
    crowd: int = 100
    others: int = 3

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts."""
        tools = self.tools
        usual = tools(random)
        while True:
            (length,) = _around(random, tools.documentation_tokens, 1).tolist()
            new = _text(random, _SYSTEM_TOKENS) + _text(random, length)
            for place in range(self.cycle):
                if place < self.crowd and place % 10 >= self.others:
                    question, answer = (
                        _around(random, mean, 1) for mean in (tools.question_tokens, tools.answer_tokens)
                    )
                    yield new + _text(random, int(question[0])), int(answer[0])
                else:
                    yield next(usual)


@dataclass(frozen=True, slots=True)
class Alone:
    """Prompts that share nothing."""

    prompt_tokens: int = 800
    answer_tokens: int = 40

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts."""
        while True:
            lengths = _around(random, self.prompt_tokens, _WAVE).tolist()
            answers = _around(random, self.answer_tokens, _WAVE).tolist()
            for length, answer in zip(lengths, answers, strict=True):
                yield _text(random, length), answer


@dataclass(frozen=True, slots=True)
class Again:
    """A few prompts that repeat, with long answers. Once they are cached, no prompt token is computed."""

    prompts: int = 50
    prompt_tokens: int = 800
    answer_tokens: int = 200

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts."""
        known = [_text(random, length) for length in _around(random, self.prompt_tokens, self.prompts).tolist()]
        while True:
            answers = _around(random, self.answer_tokens, _WAVE).tolist()
            for number, answer in zip(random.integers(0, self.prompts, _WAVE).tolist(), answers, strict=True):
                yield known[number], answer


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries that run side by side, each from a random position on. Each sends its prompts in the planner's order."""

    rows: int = 2_000

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts of the paper's queries: q1 to q4 over movies, q5 over SQuAD."""
        found = (*streams("movies", ("q1", "q2", "q3", "q4"), self.rows), *streams("squad", ("q5",), self.rows))
        running = []
        for stream in found:
            start = int(random.integers(0, len(stream.prompts)))
            running.append(cycle((*stream.prompts[start:], *stream.prompts[:start])))
        while True:
            asked = next(running[random.integers(0, len(running))])
            yield asked.tokens, asked.answer_tokens


@dataclass(frozen=True, slots=True)
class Mixed:
    """Prompts of several kinds; `parts` has each kind with its relative frequency."""

    parts: tuple[tuple[Prompts, int], ...]

    def __call__(self, random: np.random.Generator) -> Iterator[tuple[bytes, int]]:
        """Yield prompts."""
        streams = [stream for part, times in self.parts for stream in [part(random)] * times]
        while True:
            yield next(streams[random.integers(0, len(streams))])


def poisson(random: np.random.Generator, count: int, rate: float) -> Iterator[float]:
    """Yield the times of a Poisson process: arrivals are independent of one another."""
    yield from np.cumsum(random.exponential(1 / rate, count)).tolist()


def crowded(random: np.random.Generator, count: int, rate: float) -> Iterator[float]:
    """Yield Poisson times at which the crowds of `Crowds` come three times as fast as on average."""
    kind = Crowds()
    crowd = np.arange(count) % kind.cycle < kind.crowd
    fast = 3.0
    slow = (kind.cycle - kind.crowd) / (kind.cycle - kind.crowd / fast)
    yield from np.cumsum(random.exponential(1 / rate, count) / np.where(crowd, fast, slow)).tolist()


def together(size: int, random: np.random.Generator, count: int, rate: float) -> Iterator[float]:
    """Yield the times of batches of `size` prompts, each at a random time of its share of the whole time."""
    starts = (np.arange(-(-count // size)) + random.random(-(-count // size))) * size / rate
    yield from np.repeat(starts, size)[:count].tolist()


def azure(table: str, random: np.random.Generator, count: int, rate: float) -> Iterator[float]:
    """Yield the times of `count` consecutive requests of an Azure trace, scaled to the mean rate `rate`."""
    seconds = _azure_seconds(table)
    count = min(count, len(seconds))
    start = random.integers(0, len(seconds) - count + 1)
    part = seconds[start : start + count] - seconds[start]
    yield from (part * (count / rate / max(float(part[-1]), 1e-9))).tolist()


def drawn(prompts: Prompts, times: Times, most_tokens: int, seed: int, count: int, rate: float) -> Iterator[Arrival]:
    """Yield prompts with arrival times. The sequence of prompts does not depend on the rate."""
    stream = prompts(np.random.default_rng((seed, 0)))
    at = times(np.random.default_rng((seed, 1)), count, rate)
    for second, (tokens, answer) in zip(at, islice(stream, count), strict=False):
        yield Arrival(second, tokens, answer, most_tokens)


def beside(
    parts: tuple[tuple[Prompts, Times], ...], most_tokens: int, seed: int, count: int, rate: float
) -> Iterator[Arrival]:
    """Yield prompts of several kinds, each with times of its own and an equal share of the prompts, in their order."""
    share, rate = count // len(parts), rate / len(parts)
    found = [
        (second, number, place, prompt)
        for number, (prompts, times) in enumerate(parts)
        for place, (second, prompt) in enumerate(
            zip(
                times(np.random.default_rng((seed, number, 1)), share, rate),
                islice(prompts(np.random.default_rng((seed, number, 0))), share),
                strict=True,
            )
        )
    ]
    for second, _, _, (tokens, answer) in sorted(found, key=lambda one: one[:3]):
        yield Arrival(second, tokens, answer, most_tokens)


def mooncake(seed: int, count: int, rate: float) -> Iterator[Arrival]:
    """Yield consecutive requests of the Mooncake conversation trace, scaled to the mean rate `rate`."""
    return part(_mooncake(), seed, count, rate)


@lru_cache
def _azure_seconds(table: str) -> NDArray[np.float64]:
    stamps = pq.read_table(data_table(table), columns=["timestamp"])["timestamp"].to_numpy()
    seconds: NDArray[np.float64] = (stamps - stamps[0]).astype("timedelta64[us]").astype(np.float64) / 1e6
    return seconds


@lru_cache
def _mooncake() -> list[Arrival]:
    return read_trace(data_table("mooncake_conversation_trace"))[0]


def _around(random: np.random.Generator, mean: int, count: int) -> NDArray[np.int64]:
    return random.integers(mean // 2, mean + mean // 2 + 1, count)


def _text(random: np.random.Generator, length: int) -> bytes:
    return random.integers(0, 32_000, length, dtype=np.uint32).tobytes()


_TOOL_BLOCKS: Final = 2_300
_TOOL_RATE: Final = 9.0

DOCS: Final = Tools(tools=200, exponent=0.9, documentation_tokens=8_000, question_tokens=60, answer_tokens=100)
"""Questions about long documents."""

WORKLOADS: Final = {
    "tools": Workload(partial(drawn, Tools(), poisson, 64), _TOOL_RATE, _TOOL_BLOCKS),
    "docs": Workload(partial(drawn, DOCS, poisson, 200), 1.0, 4_096),
    "burst": Workload(partial(drawn, Crowds(), crowded, 64), _TOOL_RATE, _TOOL_BLOCKS),
    "batches": Workload(partial(drawn, Batch(), partial(together, Batch().rows), 32), 40.0, _TOOL_BLOCKS),
    "mixed": Workload(
        partial(beside, ((Tools(), poisson), (Batch(), partial(together, Batch().rows))), 64), 13.0, _TOOL_BLOCKS
    ),
    "tools, azure conv times": Workload(
        partial(drawn, Tools(), partial(azure, "azure_trace_conv"), 64), 7.0, _TOOL_BLOCKS, table="azure_trace_conv"
    ),
    "tools, azure code times": Workload(
        partial(drawn, Tools(), partial(azure, "azure_trace_code"), 64), 7.0, _TOOL_BLOCKS, table="azure_trace_code"
    ),
    "mooncake": Workload(mooncake, _TRACE_RATE, _TRACE_BLOCKS, _TRACE_BLOCK_TOKENS, "mooncake_conversation_trace"),
    "nothing shared": Workload(partial(drawn, Alone(), poisson, 64), 8.0, _TOOL_BLOCKS),
    "mix": Workload(partial(drawn, Mixed(((Tools(), 2), (Alone(), 1), (Again(), 1))), poisson, 300), 7.0, _TOOL_BLOCKS),
    "queries": Workload(partial(drawn, Queries(), poisson, 64), 35.0, _TOOL_BLOCKS, table="movies"),
    "queries and tools": Workload(
        partial(drawn, Mixed(((Queries(), 3), (Tools(), 1))), partial(azure, "azure_trace_conv"), 64),
        15.0,
        _TOOL_BLOCKS,
        table="movies",
    ),
}
