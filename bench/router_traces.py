"""Traces for the router's simulation, from files of the shape of Mooncake's traces (`bench.mooncake_traces`).

A file does not say how many tokens a block has. The lengths of prompts tell: of 512 and the smaller powers of two,
the number is the one that fits the most prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from bench.mooncake_traces import TraceError, read_rows, seconds
from bench.simulation import Arrival

_SIZES: Final = tuple(1 << power for power in range(9, -1, -1))
_COLUMNS: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_MOST_ANSWER_TOKENS: Final = 2_000
_WORD: Final = 1 << 32


def read_trace(path: Path) -> tuple[list[Arrival], int]:
    """Return the prompts of a trace in the order of their times, which begin at 0, and the tokens of a block.

    The tokens of a block are its number, repeated.

    Raises:
        TraceError: the file is missing, has another shape, or has no prompts.
    """
    rows = [_checked(where, row) for where, row in read_rows(path, _COLUMNS)]
    size = _block_tokens([(row.length, len(row.numbers)) for row in rows])
    found = sorted((_arrival(row, size) for row in rows), key=lambda one: one.at)
    start = found[0].at
    return [Arrival(one.at - start, one.tokens, one.answer_tokens, one.most_tokens) for one in found], size


def part(trace: list[Arrival], seed: int, count: int, rate: float) -> Iterator[Arrival]:
    """Yield `count` consecutive prompts, scaled to the mean rate `rate`; all, if the trace has fewer."""
    count = min(count, len(trace))
    start = int(np.random.default_rng(seed).integers(0, len(trace) - count + 1))
    chosen = trace[start : start + count]
    scale = count / rate / max(1e-3, chosen[-1].at - chosen[0].at)
    for one in chosen:
        yield Arrival((one.at - chosen[0].at) * scale, one.tokens, one.answer_tokens, one.most_tokens)


class _Row(NamedTuple):
    where: str
    at: float
    length: int
    answer: int
    numbers: list[int]


def _checked(where: str, row: Mapping[str, Any]) -> _Row:
    length, answer, numbers = (row.get(name) for name in _COLUMNS[1:])
    for name, value in (("input_length", length), ("output_length", answer)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise TraceError(f"{where}: {name} is {value!r}; expected a whole number of tokens")
    if not isinstance(numbers, list) or not all(isinstance(one, int) and one >= 0 for one in numbers):
        raise TraceError(f"{where}: hash_ids is not a list of whole numbers from 0 on")
    return _Row(where, seconds(where, row), length or 0, answer or 0, numbers)


def _block_tokens(lengths: Sequence[tuple[int, int]]) -> int:
    """Return how many tokens a block has, given the lengths of prompts in tokens and in blocks."""
    return max(_SIZES, key=lambda size: sum(-(-tokens // size) == blocks for tokens, blocks in lengths))


def _arrival(row: _Row, size: int) -> Arrival:
    if not row.length or len(row.numbers) * size < row.length:
        found = f"{row.length} tokens of input, {len(row.numbers)} hash_ids"
        raise TraceError(f"{row.where}: {found}; expected one for each {size} tokens")
    tokens = b"".join((one % _WORD).to_bytes(4, "little") * size for one in row.numbers)[: 4 * row.length]
    return Arrival(row.at, tokens, max(1, row.answer), max(_MOST_ANSWER_TOKENS, row.answer))
