"""Workloads for the router's simulation: prompts and their times of arrival, by seed.

Each workload is one entry of `WORKLOADS`. A stream of prompts that arrive together has one time for all arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import cycle, islice
from typing import Final, TypeAlias

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.common import data_table
from bench.prompt_streams import streams
from bench.simulation import Arrival

BLOCK_TOKENS: Final = 16
_MOONCAKE_BLOCK: Final = 512
_SYSTEM_TOKENS: Final = 128
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


def mooncake(seed: int, count: int, rate: float) -> Iterator[Arrival]:
    """Yield consecutive requests of the Mooncake conversation trace, scaled to the mean rate `rate`.

    The trace has one number for each block of 512 tokens. Here a block is this number 512 times.
    """
    table = _mooncake_table()
    count = min(count, table.num_rows)
    part = table.slice(np.random.default_rng(seed).integers(0, table.num_rows - count + 1), count)
    stamps = part["timestamp"].to_numpy()
    scale = count / rate / max(1, stamps[-1] - stamps[0])
    columns = (part[name].to_pylist() for name in ("hash_ids", "input_length", "output_length"))
    for stamp, numbers, length, answer in zip(stamps.tolist(), *columns, strict=True):
        tokens = b"".join(number.to_bytes(4, "little") * _MOONCAKE_BLOCK for number in numbers)[: 4 * length]
        yield Arrival((stamp - int(stamps[0])) * scale, tokens, answer, 2_000)


@lru_cache
def _azure_seconds(table: str) -> NDArray[np.float64]:
    stamps = pq.read_table(data_table(table), columns=["timestamp"])["timestamp"].to_numpy()
    seconds: NDArray[np.float64] = (stamps - stamps[0]).astype("timedelta64[us]").astype(np.float64) / 1e6
    return seconds


@lru_cache
def _mooncake_table() -> pq.Table:
    return pq.read_table(data_table("mooncake_conversation_trace"))


def _around(random: np.random.Generator, mean: int, count: int) -> NDArray[np.int64]:
    return random.integers(mean // 2, mean + mean // 2 + 1, count)


def _text(random: np.random.Generator, length: int) -> bytes:
    return random.integers(0, 32_000, length, dtype=np.uint32).tobytes()


_TOOL_BLOCKS: Final = 2_300
_TOOL_RATE: Final = 9.0

WORKLOADS: Final = {
    "tools": Workload(partial(drawn, Tools(), poisson, 64), _TOOL_RATE, _TOOL_BLOCKS),
    "tools, azure conv times": Workload(
        partial(drawn, Tools(), partial(azure, "azure_trace_conv"), 64), 7.0, _TOOL_BLOCKS, table="azure_trace_conv"
    ),
    "tools, azure code times": Workload(
        partial(drawn, Tools(), partial(azure, "azure_trace_code"), 64), 7.0, _TOOL_BLOCKS, table="azure_trace_code"
    ),
    "mooncake": Workload(mooncake, 0.5, 2_000, _MOONCAKE_BLOCK, "mooncake_conversation_trace"),
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
