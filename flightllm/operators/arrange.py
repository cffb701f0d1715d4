"""Sort an operator's rows into the order of their prompts, and find their distinct argument tuples."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.datafusion.run import Batches
from flightllm.llm.engine import Engine
from flightllm.operators.batches import PromptBatch, prompt_batches, split
from flightllm.operators.elements import elements, places
from flightllm.operators.spool import Spooled
from flightllm.prompt_order.base import CacheShape, Method, Ordering
from flightllm.prompt_order.encode import encode
from flightllm.prompt_order.fixed import fixed_order
from flightllm.prompt_order.ordering import order

_TAKEN_ROWS = 8_192
_SAMPLED_TEXTS = 20
"""The number of values whose tokens are counted, to learn how many characters a token has."""


Sql: TypeAlias = Callable[[str], Batches]
"""Runs SQL over stage inputs."""


@dataclass(frozen=True, slots=True)
class ArgumentColumns:
    """The argument columns of a pass."""

    columns: tuple[int, ...]
    names: tuple[str, ...]
    """The names of the columns in the prompts."""
    readers: tuple[int, ...]
    """The number of calls that read each column."""
    lists: frozenset[int] = frozenset()
    """The columns that hold lists as texts."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """Rows in prompt order, cut into units."""

    prompt_batches: Iterator[PromptBatch]
    distinct: int
    """The number of distinct argument tuples; an estimate if the rows did not fit into memory."""
    places: tuple[tuple[int, ...], ...]
    """For each argument, the positions of its value in a tuple: one position, or one for each element of a list."""
    order: tuple[int, ...]
    """The positions in prompt order, if one order holds for all batches."""
    ordering: Ordering | None
    """How the tuples were ordered, if the rows fit into memory."""


@dataclass(frozen=True, slots=True)
class How:
    """How to arrange: the method, and the engine that the order is good for."""

    method: Method
    dedup: bool
    engine: Engine
    window: int
    shared_tokens: float
    size: Callable[[], int]
    """The size of the next batch."""


def arrange(
    spooled: Spooled, table: str, schema: pa.Schema, arguments: ArgumentColumns, how: How, sql: Sql
) -> Arranged:
    """Arrange the rows in memory. Rows on disk get one fixed order of the columns, by which DataFusion can sort."""
    if spooled.batches is None:
        return _by_sql(table, schema, arguments, how, sql)
    if not spooled.rows:
        as_given = tuple(range(len(arguments.columns)))
        return Arranged(iter(()), 0, tuple((place,) for place in as_given), as_given, None)
    rows = pa.Table.from_batches(spooled.batches, schema).combine_chunks()
    given = {c: rows.column(c) for c in arguments.columns}
    lists = {c: places(given[c]) for c in arguments.lists}
    ends = list(accumulate((lists.get(c, 1) for c in arguments.columns), initial=0))
    placed = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
    columns = [part for c in arguments.columns for part in _parts(given[c], lists.get(c))]
    names = [name for name, own in zip(arguments.names, placed, strict=True) for _ in own]
    readers = [count for count, own in zip(arguments.readers, placed, strict=True) for _ in own]
    per_token = _characters_per_token(columns, how.engine)
    encoded, tuples = encode(columns, names, readers, per_token, [own for own in placed if len(own) > 1])
    cache = how.engine.prefix_cache
    method, shape = how.method, CacheShape()
    if cache is not None:
        shape = CacheShape(cache.block_tokens, cache.blocks, how.shared_tokens)
    elif method == "auto":
        method = "none"
    ahead = 1 if cache is None or cache.at_once else how.window
    ordering = order(encoded, method, shape, ahead)
    prompt_batches = _prompt_batches(rows, tuples, ordering, arguments, how, lists)
    return Arranged(prompt_batches, len(ordering.rows), placed, tuple(range(len(columns))), ordering)


def _parts(column: pa.ChunkedArray, count: int | None) -> list[pa.ChunkedArray]:
    """Return a column; of a column of lists, return `count` columns with the elements."""
    if count is None:
        return [column]
    return [pa.chunked_array([part]) for part in elements(column.combine_chunks(), count)]


def _prompt_batches(
    rows: pa.Table,
    tuples: NDArray[np.int64],
    ordering: Ordering,
    arguments: ArgumentColumns,
    how: How,
    lists: Mapping[int, int],
) -> Iterator[PromptBatch]:
    rank = np.empty(len(ordering.rows), dtype=np.int64)
    rank[ordering.rows] = np.arange(len(rank))
    ranks = rank[tuples]
    as_given = not how.dedup and ordering.method == "none"
    taken = np.arange(len(ranks)) if as_given else np.argsort(ranks, kind="stable")
    ranks = ranks[taken]
    starts = np.flatnonzero(np.diff(ranks, prepend=-1)) if how.dedup else np.arange(len(ranks))
    first = 0
    while first < len(starts):
        begin = starts[first]
        last = max(first + 1, int(np.searchsorted(starts, begin + _TAKEN_ROWS)))
        end = starts[last] if last < len(starts) else len(ranks)
        (batch,) = rows.take(pa.array(taken[begin:end])).combine_chunks().to_batches()
        orders = [ordering.patterns[p] for p in ordering.pattern[ranks[starts[first:last]]].tolist()]
        yield from split(batch, starts[first:last] - begin, arguments.columns, how.size, orders, lists)
        first = last


def _by_sql(table: str, schema: pa.Schema, arguments: ArgumentColumns, how: How, sql: Sql) -> Arranged:
    names = [schema.field(c).name for c in arguments.columns]
    fixed = fixed_order(sql, table, names)
    rows = sql(f"SELECT * FROM {table} ORDER BY {', '.join(names[i] for i in fixed.columns)}")
    placed = tuple((place,) for place in range(len(names)))
    return Arranged(prompt_batches(rows, arguments.columns, how.size), fixed.distinct, placed, fixed.columns, None)


def _characters_per_token(columns: Sequence[pa.ChunkedArray], engine: Engine) -> float:
    characters = tokens = 1
    for column in columns:
        values = (value.as_py() for value in column.slice(0, 4 * _SAMPLED_TEXTS))
        for text in islice((value for value in values if value), _SAMPLED_TEXTS):
            characters += len(text)
            tokens += engine.count_tokens(text)
    return characters / tokens
