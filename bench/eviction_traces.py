"""Traces of prompts as blocks: files of Mooncake's shape, and Azure's traces, whose conversations are formed again.

Azure's traces have only the numbers of tokens of prompts and answers. A prompt continues the conversation whose tokens
up to now are the closest below its own, if

- the last prompt of the conversation came at least `_ANSWER_SECONDS` a token of its answer ago,
- it came at most `_IDLE_SECONDS` ago, and
- the new prompt adds at most `_ADDED_TOKENS`.

Otherwise a new conversation begins. All conversations begin with the same `_SYSTEM_BLOCKS` blocks.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.common import data_table
from bench.eviction_workloads import Event, What
from bench.mooncake_traces import TraceError, read_rows, seconds
from flightllm.kvcache.eviction.base import Use

_BLOCK_TOKENS: Final = 64
_SYSTEM_BLOCKS: Final = 1
_ANSWER_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 600.0
_ADDED_TOKENS: Final = 512
_COLUMNS: Final = ("timestamp", "hash_ids")


def read_trace(path: Path, most: int | None = None) -> list[Event]:
    """Return the prompts of a trace of Mooncake's shape, one after another: JSON lines, or Parquet (`*.parquet`).

    A prompt has `timestamp`, in milliseconds, and `hash_ids`, its blocks. Other fields are not read.

    Raises:
        TraceError: the file is missing, has another shape, or has no prompts.
    """
    events = []
    before = -math.inf
    for where, row in read_rows(path, _COLUMNS):
        event = _event(where, row)
        if event.at < before:
            raise TraceError(f"{where}: the timestamp is before that of the last prompt; sort by timestamp")
        before = event.at
        events.append(event)
        if len(events) == most:
            break
    return events


def _event(where: str, row: Mapping[str, Any]) -> Event:
    at, keys = seconds(where, row), row.get("hash_ids")
    if not isinstance(keys, list) or not all(isinstance(key, int | str) for key in keys):
        raise TraceError(f"{where}: hash_ids is not a list of whole numbers or texts")
    if not keys:
        raise TraceError(f"{where}: hash_ids is empty; expected the prompt's blocks")
    return Event(at, What.PASSES, Use(list(dict.fromkeys(keys))))


def azure_blocks(table: str, most: int | None = None) -> list[Event]:
    """Return the prompts of one of Azure's traces as blocks; see the module's docstring for the rule.

    Raises:
        FileNotFoundError: there is no such table; see `bench.common.data_table`.
    """
    rows = pq.read_table(data_table(table)).slice(0, most).to_pylist()
    start, fresh = rows[0]["timestamp"], count(_SYSTEM_BLOCKS)
    system = list(range(_SYSTEM_BLOCKS))
    open_ones: list[tuple[int, int]] = []
    """The tokens and the number of each conversation, sorted."""
    states: dict[int, tuple[float, float, list[int]]] = {}
    """When the last prompt of a conversation came, when its answer ended, and all its blocks, by its number."""
    events = []
    for number, row in enumerate(rows):
        at = (row["timestamp"] - start).total_seconds()
        tokens, answer = row["context_tokens"], row["generated_tokens"]
        found = _continued(open_ones, states, tokens, at)
        keys = system if found is None else states.pop(found)[2]
        keys = _grown(keys, tokens, fresh)
        whole = _grown(keys, tokens + answer, fresh)
        events.append(Event(at, What.PASSES, Use(whole)))
        insort(open_ones, (tokens + answer, number))
        states[number] = at, at + answer * _ANSWER_SECONDS, whole
    return events


def _continued(
    open_ones: list[tuple[int, int]], states: Mapping[int, tuple[float, float, list[int]]], tokens: int, at: float
) -> int | None:
    """Remove and return the conversation that a prompt continues; None if it begins one."""
    place = bisect_left(open_ones, (tokens, 0)) - 1
    while place >= 0 and open_ones[place][0] >= tokens - _ADDED_TOKENS:
        _, number = open_ones[place]
        came, ended, _ = states[number]
        if at - came > _IDLE_SECONDS:
            del open_ones[place]
        elif at >= ended:
            del open_ones[place]
            return number
        place -= 1
    return None


def _grown(keys: Sequence[int], tokens: int, fresh: Iterator[int]) -> list[int]:
    """Return the full blocks of this number of tokens, which begin with `keys`; at least one block."""
    size = max(1, tokens // _BLOCK_TOKENS)
    return [*keys[:size], *(next(fresh) for _ in range(size - len(keys)))]
