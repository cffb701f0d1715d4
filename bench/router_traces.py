"""Traces for the router's simulation, from files of the shape of Mooncake's traces.

Each line, or row of a Parquet file, is a prompt: `timestamp` in milliseconds, `input_length` and `output_length` in
tokens, and `hash_ids`, one number for each block of 512 tokens. Equal numbers mean equal blocks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.simulation import Arrival

BLOCK_TOKENS: Final = 512
_COLUMNS: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_MOST_ANSWER_TOKENS: Final = 2_000
_WORD: Final = 1 << 32


class TraceError(ValueError):
    """A file is not a trace. The text says where, and what to write instead."""


def read_trace(path: Path) -> list[Arrival]:
    """Return the prompts of a trace in the order of their times, which begin at 0. A block is its number, repeated.

    Raises:
        TraceError: the file is missing, has another shape, or has no prompts.
    """
    if not path.is_file():
        raise TraceError(f"{path}: there is no such file")
    rows = _parquet(path) if path.suffix == ".parquet" else _lines(path)
    found = sorted((_arrival(f"{path}, {where}", row) for where, row in rows), key=lambda one: one.at)
    if not found:
        raise TraceError(f"{path}: the file has no prompts")
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


def _parquet(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a Parquet file: {error}") from error
    missing = [name for name in _COLUMNS if name not in table.column_names]
    if missing:
        raise TraceError(f"{path}: no column {', '.join(missing)}; expected {', '.join(_COLUMNS)}")
    for number, row in enumerate(table.select(_COLUMNS).to_pylist()):
        yield f"row {number}", row


def _lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: not a text of JSON lines, and not named *.parquet") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise TraceError(f"{path}, line {number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise TraceError(f"{path}, line {number}: expected an object with {', '.join(_COLUMNS)}")
            yield f"line {number}", row


def _arrival(where: str, row: Mapping[str, Any]) -> Arrival:
    at, length, answer, numbers = (row.get(name) for name in _COLUMNS)
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise TraceError(f"{where}: timestamp is {at!r}; expected a number of milliseconds")
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
    return Arrival(at / 1_000, tokens, max(1, answer or 0), max(_MOST_ANSWER_TOKENS, answer or 0))
