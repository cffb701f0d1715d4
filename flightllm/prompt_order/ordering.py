"""Encodes Arrow columns as numbers, and orders the prompts of a pass by the method in the setting."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flightllm.prompt_order.auto import auto
from flightllm.prompt_order.base import REORDERING, CacheShape, Draft, Encoded, Method, Ordering
from flightllm.prompt_order.greedy import greedy
from flightllm.prompt_order.interleave import interleave, prompts_in
from flightllm.prompt_order.lists import gather, spread
from flightllm.prompt_order.sequence import finish, measured
from flightllm.prompt_order.uniform import as_given, as_written, by_columns, by_score

UNLIMITED = CacheShape()
"""A cache that never evicts."""
_DENSE = 4
"""Distinct tuples are found by a table instead of sorting, if it has at most this many entries for each row."""
_COMPARED = 20_000_000
"""Bytes of neighbouring values compared per column: this limits the time for long values with a common start."""


def order(
    encoded: Encoded,
    method: Method,
    cache: CacheShape = UNLIMITED,
    window: int = 1,
    columns: Sequence[int] | None = None,
) -> Ordering:
    """Order the tuples by `method` for an engine that runs `window` requests at once (1: running requests share).

    With `columns`, all tuples have this order of fields instead. The result is deterministic.

    Raises:
        ValueError: the method is unknown.
    """
    lists = spread(encoded) if encoded.lists and method in REORDERING else None
    solved = encoded if lists is None else lists.encoded
    cache = replace(cache, running=min(window, prompts_in(solved, cache)) if window > 1 else 0)
    draft = _draft(solved, method, cache) if columns is None else interleave(solved, by_columns(solved, columns), cache)
    if lists is not None:
        draft = gather(encoded, lists, measured(solved, draft, cache))
    return finish(encoded, draft, cache)


def _draft(encoded: Encoded, method: str, cache: CacheShape) -> Draft:
    match method:
        case "none":
            return as_given(encoded)
        case "rows":
            return interleave(encoded, as_written(encoded), cache)
        case "fixed":
            return interleave(encoded, by_score(encoded), cache)
        case "greedy":
            return greedy(encoded, cache)
        case "auto":
            return auto(encoded, cache)
    raise ValueError(f"unknown ordering '{method}': use none, rows, fixed, greedy or auto")


def encode(
    columns: Sequence[pa.ChunkedArray | pa.DictionaryArray],
    names: Sequence[str],
    readers: Sequence[int],
    tokens: Callable[[str], float] | float,
    lists: Sequence[tuple[int, ...]] = (),
    calls: Sequence[tuple[int, ...]] = (),
) -> tuple[Encoded, NDArray[np.int64]]:
    """Return the distinct tuples of `columns` in order of first appearance, and for each input row its tuple's number.

    The weight of a value is the tokens of `name: value` and a line end: `tokens(text)`, or characters / `tokens`. For a
    field with an empty name, only the value counts. Columns that are not text are cast to text. A dictionary array must
    have distinct large strings as its dictionary, and all of them must occur. `lists` are columns
    with the elements of a list, all with the same name. `calls` are the columns of each call in the written order.
    """
    parts = [_encode_column(column, name, tokens) for column, name in zip(columns, names, strict=True)]
    for group in lists:
        chunks = [chunk for place in group for chunk in columns[place].chunks]
        together = pa.chunked_array(chunks, columns[group[0]].type)
        codes, weights, overlaps = _encode_column(together, names[group[0]], tokens)
        for place, own in zip(group, np.split(codes, len(group)), strict=True):
            parts[place] = own, weights, overlaps
    codes = np.stack([part[0] for part in parts], axis=1)
    first, tuples = _distinct(codes, [len(part[1]) for part in parts])
    dictionaries = tuple(part[1] for part in parts), tuple(part[2] for part in parts)
    encoded = Encoded(codes[first], dictionaries[0], tuple(readers), dictionaries[1], tuple(lists), tuple(calls))
    return encoded, tuples


def _encode_column(
    column: pa.ChunkedArray | pa.DictionaryArray, name: str, tokens: Callable[[str], float] | float
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
    """Return codes into the sorted dictionary, the weights of its values, and their overlaps with the previous value.

    An example, with one character a token and no name:

    |row|value|code|
    |---|---|---|
    |0|'abd'|1|
    |1|'abc'|0|
    |2|NULL|-1|

    The dictionary is ['abc', 'abd'], the weights are [3, 3] and the overlaps are [0, 2].
    """
    head, tail = (f"{name}: ", "\n") if name else ("", "")
    known = isinstance(column, pa.DictionaryArray)
    coded = column if known else column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    order = pc.array_sort_indices(coded.dictionary)
    values = coded.dictionary.take(order)
    rank = np.empty(len(values) + 1, dtype=np.int32)
    rank[order.to_numpy(zero_copy_only=False)] = np.arange(len(values), dtype=np.int32)
    rank[-1] = -1
    codes = rank[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    characters = pc.utf8_length(values).to_numpy(zero_copy_only=False).astype(np.float64)
    named = characters + len(head) + len(tail)
    if callable(tokens):
        weights = np.fromiter((tokens(f"{head}{value.as_py()}{tail}") for value in values), np.float64, len(values))
        per_token = max(named.sum(), 1.0) / max(weights.sum(), 1.0)
    else:
        weights, per_token = named / tokens, tokens
    return codes, weights, np.minimum((_common(values, characters) + len(head)) / per_token, weights)


def _common(values: pa.LargeStringArray, characters: NDArray[np.float64]) -> NDArray[np.float64]:
    """Estimate how many characters each of the sorted values shares with the previous value; 0 for the first value."""
    _, offsets_buffer, data_buffer = values.buffers()
    common = np.zeros(len(values), dtype=np.float64)
    if len(values) < 2 or data_buffer is None:
        return common
    offsets = np.frombuffer(offsets_buffer, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    room = np.minimum(lengths[1:], lengths[:-1])
    alive, depth, compared = np.flatnonzero(room > 0), 0, 0
    while len(alive) and compared < _COMPARED:
        compared += len(alive)
        alive = alive[data[starts[alive + 1] + depth] == data[starts[alive] + depth]]
        depth += 1
        common[alive + 1] = depth
        alive = alive[room[alive] > depth]
    common *= characters / np.maximum(lengths, 1)
    return common


def _distinct(codes: NDArray[np.int32], sizes: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each distinct tuple, in row order, and for each row the number of its tuple."""
    keys, span = np.zeros(len(codes), dtype=np.int64), 1
    for column, size in enumerate(sizes):
        if span * (size + 1) >= 1 << 62:
            _, keys = np.unique(keys, return_inverse=True)
            span = int(keys.max(initial=0)) + 1
        keys = keys * (size + 1) + codes[:, column] + 1
        span *= size + 1
    if span <= _DENSE * len(keys):
        return _distinct_dense(keys, span)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return first[order].astype(np.int64), rank[inverse]


def _distinct_dense(keys: NDArray[np.int64], span: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the same as `_distinct` for keys from 0 to `span`, without sorting them.

    Example: the keys 3, 0, 3 have the first rows 0 and 1, and the numbers 0, 1, 0.
    """
    first_of_key = np.full(span, len(keys), dtype=np.int64)
    first_of_key[keys[::-1]] = np.arange(len(keys) - 1, -1, -1)  # the last write stays: that of the first row
    first = np.sort(first_of_key[first_of_key < len(keys)])
    number = np.empty(span, dtype=np.int64)
    number[keys[first]] = np.arange(len(first))
    return first, number[keys]
