"""Traces for the router's simulation, from files of the shape of Mooncake's traces (`bench.mooncake_traces`).

A block has 512 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.mooncake_traces import TraceError, read_rows, seconds
from bench.simulation import Arrival

BLOCK_TOKENS: Final = 512
_COLUMNS: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_MOST_ANSWER_TOKENS: Final = 2_000
_WORD: Final = 1 << 32


def read_trace(path: Path) -> list[Arrival]:
    """Return the prompts of a trace in the order of their times, which begin at 0. A block is its number, repeated.

    Raises:
        TraceError: the file is missing, has another shape, or has no prompts.
    """
    found = sorted((_arrival(where, row) for where, row in read_rows(path, _COLUMNS)), key=lambda one: one.at)
    start = found[0].at
    return [Arrival(one.at - start, one.tokens, one.answer_tokens, one.most_tokens) for one in found]


def part(trace: list[Arrival], seed: int, count: int, rate: float) -> Iterator[Arrival]:
    """Yield `count` consecutive prompts, scaled to the mean rate `rate`; all, if the trace has fewer."""
    count = min(count, len(trace))
    start = int(np.random.default_rng(seed).integers(0, len(trace) - count + 1))
    chosen = trace[start : start + count]
    scale = count / rate / max(1e-3, chosen[-1].at - chosen[0].at)
    for one in chosen:
        yield Arrival((one.at - chosen[0].at) * scale, one.tokens, one.answer_tokens, one.most_tokens)


def _arrival(where: str, row: Mapping[str, Any]) -> Arrival:
    at = seconds(where, row)
    length, answer, numbers = (row.get(name) for name in _COLUMNS[1:])
    for name, value in (("input_length", length), ("output_length", answer)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise TraceError(f"{where}: {name} is {value!r}; expected a whole number of tokens")
    if not isinstance(numbers, list) or not all(isinstance(one, int) and one >= 0 for one in numbers):
        raise TraceError(f"{where}: hash_ids is not a list of whole numbers from 0 on")
    if not length or len(numbers) * BLOCK_TOKENS < length:
        raise TraceError(
            f"{where}: {length} tokens of input, {len(numbers)} hash_ids; expected one for each {BLOCK_TOKENS} tokens"
        )
    tokens = b"".join((one % _WORD).to_bytes(4, "little") * BLOCK_TOKENS for one in numbers)[: 4 * length]
    return Arrival(at, tokens, max(1, answer or 0), max(_MOST_ANSWER_TOKENS, answer or 0))
