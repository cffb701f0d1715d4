"""Arrange rows for an engine: choose the order of their prompts, and cut the rows into batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, pairwise
from types import MappingProxyType
from typing import TypeAlias, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flightllm.datafusion.run import Batches
from flightllm.engines.extras import extras_of
from flightllm.functions.call import ELEMENT_END
from flightllm.llm.engine import Engine, PrefixCache
from flightllm.operators.batches import PromptBatch
from flightllm.operators.encoded_rows import EncodedRows
from flightllm.operators.layouts import ChooseLayout, Layout
from flightllm.operators.rows import sorted_elements
from flightllm.operators.runtime import SpooledArguments
from flightllm.prompt_order.base import REORDERING, CacheShape, Encoded, Method, Ordering
from flightllm.prompt_order.fixed import fixed_order
from flightllm.prompt_order.ordering import encode, order
from flightllm.prompt_order.uniform import score_columns, written_columns

_FIRST_TUPLES, _MOST_TUPLES = 16, 512
"""Distinct tuples in a batch; its rows are sent on as soon as all of its answers are there."""
_TAKEN_ROWS = 8_192
"""About how many sorted rows are gathered at once, before they are cut into batches."""
_SAMPLED_TEXTS = 20
"""The number of values whose tokens are counted, to learn how many characters a token has."""
_COUNTED_CHARACTERS = 1 << 18
"""The most characters of values whose tokens are counted one by one, to choose a layout by its price."""
_MOST_ELEMENTS = 64
"""The most positions for a list's elements. The last position takes the rest of the list in its order."""
Sql: TypeAlias = Callable[[str], Batches]
"""Runs SQL over stage inputs."""


_MOST_FLOOR = 1 << 30
"""An endpoint with a higher floor has no cache."""


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
    calls: tuple[tuple[int, ...], ...] = ()
    """For each call: its columns in the written order."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """Rows in prompt order, cut into units."""

    batches: Callable[[], Iterator[PromptBatch]]
    """Returns all batches from the first one on; each call begins again."""
    distinct: int
    """The number of distinct argument tuples; an estimate if the rows did not fit into memory."""
    places: tuple[tuple[int, ...], ...]
    """For each argument, the positions of its value in a tuple: one position, or one for each element of a list."""
    order: tuple[int, ...]
    """The positions in prompt order, if one order holds for all batches."""
    keeps_field_order: bool
    """Whether each call's fields keep the written order; `order` and the batches' orders do not count then."""
    ordering: Ordering | None
    """How the tuples were ordered, if the rows fit into memory."""
    idle: str = ""
    """Why no order saves anything at the engine; empty if one can."""
    layout: Layout = Layout()  # noqa: RUF009 - frozen
    """The layout that `How.choose` chose."""


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
    choose: ChooseLayout | None = None
    """Chooses the layout; None if the layout is given."""
    packs: bool = False
    """Whether rows share requests, so that neighbours with equal first values share these."""

    @property
    def keeps_field_order(self) -> bool:
        """Return whether only rows are ordered, and each call's fields keep the written order."""
        return self.method not in REORDERING


def arrange(
    spooled: SpooledArguments, table: str, schema: pa.Schema, arguments: ArgumentColumns, how: How, sql: Sql
) -> Arranged:
    """Arrange the rows in memory. Rows on disk are sorted by DataFusion, by one order of the columns."""
    if spooled.encoded is None:
        return _by_sql(table, schema, arguments, how, sql)
    if not spooled.rows:
        as_given = tuple(range(len(arguments.columns)))
        return Arranged(
            lambda: iter(()), 0, tuple((place,) for place in as_given), as_given, how.keeps_field_order, None
        )
    rows = spooled.encoded
    given = {c: rows.column(c) for c in arguments.columns}
    lists = {} if how.keeps_field_order else {c: places(given[c]) for c in arguments.lists}
    if how.keeps_field_order:
        given |= {c: _as_sent(given[c]) for c in arguments.lists}
    ends = list(accumulate((lists.get(c, 1) for c in arguments.columns), initial=0))
    placed = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
    columns = [part for c in arguments.columns for part in _parts(given[c], lists.get(c))]
    names = [name for name, own in zip(arguments.names, placed, strict=True) for _ in own]
    readers = [count for count, own in zip(arguments.readers, placed, strict=True) for _ in own]
    weigh: Callable[[str], float] | float = _characters_per_token(columns, how.engine)
    if how.choose is not None and _are_few(columns):
        weigh = how.engine.count_tokens  # a price depends on which texts reach the floor of a cache
    own_columns = [own for own in placed if len(own) > 1]
    encoded, tuples = encode(columns, names, readers, weigh, own_columns, _columns_of_calls(arguments, placed))
    cache = how.engine.prefix_cache
    method, shape, idle = how.method, CacheShape(), ""
    layout = Layout()
    if how.choose is not None:
        reorders = method == "auto" and not arguments.lists
        layout = how.choose(encoded, _prompt_columns(encoded, method), orders=reorders)
    if layout.columns is not None:
        how = replace(how, method="fixed")
    if cache is not None:
        shared = 0.0 if layout.fields_first else how.shared_tokens
        shape = CacheShape(cache.block_tokens, fair(cache.blocks, how.engine), shared, cache.floor_tokens)
        idle = _idle(cache, how.shared_tokens, encoded)
    if method == "auto" and (cache is None or idle):
        method, idle = ("rows", "") if how.packs and len(columns) > 1 else ("none", idle)
    ahead = 1 if cache is None or cache.at_once else fair(how.window, how.engine)
    ordering = order(encoded, method, shape, ahead, layout.columns)
    sending = _in_sending_order(tuples, ordering, dedup=how.dedup)
    batches = partial(_in_memory, rows, *sending, ordering, arguments, how, lists)
    as_given = tuple(range(len(columns)))
    return Arranged(batches, len(ordering.rows), placed, as_given, how.keeps_field_order, ordering, idle, layout)


def _prompt_columns(encoded: Encoded, method: Method) -> list[tuple[int, ...]]:
    """Return the columns of each call in prompt order: the written order, or one order for all by their score."""
    if method not in REORDERING:
        return list(encoded.calls)
    rank = {column: place for place, column in enumerate(score_columns(encoded).tolist())}
    return [tuple(sorted(call, key=rank.__getitem__)) for call in encoded.calls]


def _columns_of_calls(arguments: ArgumentColumns, placed: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return for each call the positions of its columns in a tuple; `placed` has those of each argument column."""
    place = dict(zip(arguments.columns, placed, strict=True))
    return [tuple(position for column in call for position in place[column]) for call in arguments.calls]


def _idle(cache: PrefixCache, shared_tokens: float, encoded: Encoded) -> str:
    """Return why no order of prompts makes the engine compute less; empty if one can."""
    if cache.whole:
        return "the endpoint finds only whole prompts again"
    if not cache.earns:
        return "the endpoint reports no cached tokens"
    longest = shared_tokens + sum(float(weights.max(initial=0.0)) for weights in encoded.weights)
    if cache.floor_tokens > _MOST_FLOOR:
        return "the endpoint caches no prompts"
    if longest < cache.floor_tokens:
        return f"the endpoint caches only prompts of {cache.floor_tokens:,} tokens or more"
    return ""


def _as_sent(lists: pa.ChunkedArray | pa.DictionaryArray) -> pa.ChunkedArray:
    """Return lists, which are texts, with their elements in the order of the prompt."""
    coded = lists if isinstance(lists, pa.DictionaryArray) else lists.combine_chunks().dictionary_encode()
    texts = [ELEMENT_END.join(sorted_elements(text)) for text in coded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.large_string()).take(coded.indices)])


def _parts(
    column: pa.ChunkedArray | pa.DictionaryArray, count: int | None
) -> list[pa.ChunkedArray | pa.DictionaryArray]:
    """Return a column; of a column of lists, return `count` columns with the elements."""
    if count is None:
        return [column]
    return [pa.chunked_array([part]) for part in elements(column.combine_chunks(), count)]


def _in_sending_order(
    tuples: NDArray[np.int64], ordering: Ordering, *, dedup: bool
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the numbers of the rows in sending order, and for each of them the place of its tuple in this order.

    Example: the rows blue, red, blue have the tuples 0, 1, 0. If red is sent first, the rows are 1, 0, 2, and the
    places 0, 1, 1.
    """
    rank = np.empty(len(ordering.rows), dtype=np.int32)
    rank[ordering.rows] = np.arange(len(rank), dtype=np.int32)
    ranks = rank[tuples]
    if not dedup and ordering.method == "none":
        return np.arange(len(ranks)), ranks
    taken = np.argsort(ranks, kind="stable")
    return taken, ranks[taken]


def _in_memory(
    rows: EncodedRows,
    taken: NDArray[np.int64],
    ranks: NDArray[np.int32],
    ordering: Ordering,
    arguments: ArgumentColumns,
    how: How,
    lists: Mapping[int, int],
) -> Iterator[PromptBatch]:
    starts = np.flatnonzero(np.diff(ranks, prepend=-1)) if how.dedup else np.arange(len(ranks))
    for first, last, begin, end in _cuts(starts, np.cumsum(rows.row_bytes()[taken]), rows.most_taken):
        batch = rows.take(pa.array(taken[begin:end]))
        patterns = () if how.keeps_field_order else ordering.pattern[ranks[starts[first:last]]].tolist()
        orders = [ordering.patterns[p] for p in patterns]
        places_of = np.maximum(starts[first:last] - begin, 0)
        goes_on = end < (starts[last] if last < len(starts) else len(ranks))
        numbers = taken[begin:end]
        for prompt_batch in split(batch, places_of, arguments.columns, how.size, orders, lists):
            prompt_batch.goes_on = goes_on
            count = prompt_batch.rows.num_rows
            prompt_batch.numbers, numbers = numbers[:count], numbers[count:]
            yield prompt_batch


def _cuts(starts: NDArray[np.int64], sizes: NDArray[np.int64], most: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the first tuple, the last one + 1, the first row and the last one + 1 of the rows to take at once.

    `starts` has the first row of each tuple, `sizes` the bytes of all rows up to each row. The rows have about
    `_TAKEN_ROWS` rows and at most `most` bytes. If one tuple has more, some of its rows are taken at a time.

    Example: five rows of 10 bytes have the starts [0, 1, 2]. With at most 20 bytes, this yields (0, 2, 0, 2),
    (2, 3, 2, 4) and (2, 3, 4, 5).
    """
    rows = len(sizes)
    ends = np.append(starts[1:], rows)
    first = 0
    while first < len(starts):
        begin = int(starts[first])
        full = most + (int(sizes[begin - 1]) if begin else 0)
        by_rows = int(np.searchsorted(starts, begin + _TAKEN_ROWS))
        by_bytes = int(np.searchsorted(ends, np.searchsorted(sizes, full, "right"), "right"))
        last = max(first + 1, min(by_rows, by_bytes))
        end = int(ends[last - 1])
        while begin < end:
            full = most + (int(sizes[begin - 1]) if begin else 0)
            cut = min(end, max(begin + 1, int(np.searchsorted(sizes, full, "right"))))
            yield first, last, begin, cut
            begin = cut
        first = last


def _by_sql(table: str, schema: pa.Schema, arguments: ArgumentColumns, how: How, sql: Sql) -> Arranged:
    names = [schema.field(c).name for c in arguments.columns]
    fixed = fixed_order(sql, table, names)
    placed = tuple((place,) for place in range(len(names)))
    keys = (
        written_columns(_columns_of_calls(arguments, placed), fixed.columns) if how.keeps_field_order else fixed.columns
    )
    text = f"SELECT * FROM {table} ORDER BY {', '.join(names[i] for i in keys)}"

    def batches() -> Iterator[PromptBatch]:
        return prompt_batches(sql(text), arguments.columns, how.size)

    return Arranged(batches, fixed.distinct, placed, keys, how.keeps_field_order, None)


def _characters_per_token(columns: Sequence[pa.ChunkedArray | pa.DictionaryArray], engine: Engine) -> float:
    characters = tokens = 1
    for column in columns:
        values = (value.as_py() for value in column.slice(0, 4 * _SAMPLED_TEXTS))
        for text in islice((value for value in values if value), _SAMPLED_TEXTS):
            characters += len(text)
            tokens += engine.count_tokens(text)
    return characters / tokens


def _are_few(columns: Sequence[pa.ChunkedArray | pa.DictionaryArray]) -> bool:
    """Return whether the distinct values have few enough characters to count the tokens of each."""
    if not all(isinstance(column, pa.DictionaryArray) for column in columns):
        return False
    return sum(pc.sum(pc.utf8_length(column.dictionary)).as_py() or 0 for column in columns) <= _COUNTED_CHARACTERS


def growing_sizes() -> Callable[[], int]:
    """Return a function that returns the size of the next batch: small at first, so that first rows come soon."""
    size = _FIRST_TUPLES // 2

    def following() -> int:
        nonlocal size
        size = min(2 * size, _MOST_TUPLES)
        return size

    return following


def prompt_batches(
    batches: Iterator[pa.RecordBatch], arguments: Sequence[int], size: Callable[[], int]
) -> Iterator[PromptBatch]:
    """Split rows sorted by the argument columns into batches of at most `size()` tuples.

    Equal tuples in neighbouring batches are not merged.
    """
    for batch in filter(len, batches):
        yield from split(batch, changes([batch.column(a) for a in arguments], batch.num_rows), arguments, size)


def split(
    rows: pa.RecordBatch,
    starts: NDArray[np.int64],
    arguments: Sequence[int],
    size: Callable[[], int],
    orders: Sequence[tuple[int, ...]] = (),
    lists: Mapping[int, int] = MappingProxyType({}),
) -> Iterator[PromptBatch]:
    """Split sorted rows into batches. `starts` has the first row of each tuple, `orders` its prompt order.

    `lists` maps each argument that is a list to the number of positions that its elements take in a tuple.

    Example: the rows blue, red, red have the starts [0, 1].
    """
    first = 0
    while first < len(starts):
        last = min(first + max(1, size()), len(starts))
        own = starts[first:last]
        end = starts[last] if last < len(starts) else rows.num_rows
        lengths = np.diff(np.append(own, end))
        tuple_of_row = np.repeat(np.arange(len(own)), lengths)
        values = {a: rows.column(a).take(pa.array(starts[first : last + 1])) for a in arguments}
        parts = [elements(values[a], lists[a]) if a in lists else [values[a]] for a in arguments]
        columns = [column.to_pylist() for part in parts for column in part]
        tuples = list(zip(*columns, strict=True))
        following = (tuples.pop(), orders[last] if orders else None) if last < len(starts) and columns else None
        batch = PromptBatch(rows.slice(own[0], end - own[0]), tuple_of_row, tuples, orders[first:last])
        batch.following = following
        yield batch
        first = last


def changes(columns: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
    """Return the rows at which a tuple differs from the row before; NULL equals NULL.

    Example: blue, red, red, NULL, NULL changes at [0, 1, 3].
    """
    differs = np.zeros(rows, dtype=bool)
    differs[0] = True
    for column in columns:
        before, after = column.slice(0, rows - 1), column.slice(1)
        unequal = pc.fill_null(pc.not_equal(before, after), fill_value=False)
        null_changes = pc.xor(pc.is_null(before), pc.is_null(after))
        differs[1:] |= pc.or_(unequal, null_changes).to_numpy(zero_copy_only=False)
    return np.flatnonzero(differs)


def places(lists: pa.Array) -> int:
    """Return how many positions the longest list takes; 1 if there are no lists."""
    counts = pc.max(pc.count_substring(lists, ELEMENT_END)).as_py()
    return min(_MOST_ELEMENTS, 1 + (counts or 0))


def elements(lists: pa.Array, count: int) -> list[pa.Array]:
    """Return `count` columns with the lists' elements: NULL after a list's end, and in a row without a list.

    With a count of 2 (elements are separated by `ELEMENT_END`, shown as `;`):

    | list | column 0 | column 1 |
    |---|---|---|
    | `a` | a | NULL |
    | `a;b;c` | a | `b;c` |
    | NULL | NULL | NULL |
    """
    parts = pc.split_pattern(lists, ELEMENT_END, max_splits=count - 1)
    starts, ends = np.asarray(parts.offsets)[:-1], np.asarray(parts.offsets)[1:]
    columns = []
    for number in range(count):
        place = starts + number
        columns.append(parts.values.take(pa.array(place, mask=place >= ends)))
    return columns


@overload
def fair(whole: int, engine: Engine) -> int: ...
@overload
def fair(whole: None, engine: Engine) -> None: ...
def fair(whole: int | None, engine: Engine) -> int | None:
    """Return a new caller's part of `whole` blocks or places, at least 1; None if the whole is unknown.

    Each caller has an equal part, as in `flightllm.engines.shares`. An engine that does not count its callers
    counts as idle.
    """
    return None if whole is None else max(1, whole // (extras_of(engine).callers + 1))
