"""Order rows and fields by greedy group recursion (GGR), as its paper describes it.

Source: Liu et al., "Optimizing LLM Queries in Relational Data Analytics Workloads", MLSys 2025. The rule:

- Each pair of a field and a value has a score. Its first factor is the square of the value's length, plus the squares
  of the fields that this field determines. Its second factor is the number of rows with the value, less one.
- The rows with the best pair form a group. Their prompts begin with this field and with the fields that it determines.
- The recursion continues with the other fields of the group, and with the other rows.

The paper stops early: below a score, and below a depth. Here the recursion goes to its end, so no saving is left out.
Fields that share no further value have the order by statistics that the paper falls back to.

A field determines another one if each of its values comes with one value of the other, in the whole table.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Draft, Encoded
from flightllm.prompt_order.uniform import score_columns

_LEAST = 2
"""The fewest rows of a group."""


@dataclass(frozen=True, slots=True)
class _Table:
    """Rows of value codes, the score of one repetition of each value, and what each field determines."""

    codes: list[list[int]]
    scores: list[list[float]]
    determined: list[list[int]]


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows that share the fields of `head`, and the fields that are still free."""

    rows: list[int]
    head: tuple[int, ...]
    free: tuple[int, ...]


def ggr(encoded: Encoded) -> Draft:
    """Return rows and fields in the order of the recursion. Empty values form no group."""
    determined = _determined(encoded.codes)
    table = _Table(encoded.codes.tolist(), _scores(encoded, determined), determined)
    fixed = score_columns(encoded).tolist()
    rows: list[int] = []
    fields: list[tuple[int, ...]] = []
    stack = [_Part(list(range(len(table.codes))), (), tuple(range(encoded.codes.shape[1])))]
    while stack:
        part = stack.pop()
        if len(part.rows) > 1 and part.free:
            stack.extend(reversed(list(_split(table, part))))
            continue
        order = (*part.head, *(column for column in fixed if column in part.free))
        rows.extend(part.rows)
        fields.extend([order] * len(part.rows))
    return Draft(np.array(rows, dtype=np.int64), np.array(fields, dtype=np.int16), "ggr")


def _split(table: _Table, part: _Part) -> Iterator[_Part]:
    """Yield the groups of a part, best first, then each row that is in no group."""
    members = _members(table, part)
    counts = {pair: len(rows) for pair, rows in members.items()}
    heap = [(-table.scores[c][v] * (count - 1), c, v, count) for (c, v), count in counts.items()]
    heapq.heapify(heap)
    taken: set[int] = set()
    while heap:
        _, column, value, then = heapq.heappop(heap)
        count = counts[column, value]
        if count < _LEAST:
            continue
        if count != then:  # other groups took some of its rows since
            heapq.heappush(heap, (-table.scores[column][value] * (count - 1), column, value, count))
            continue
        rows = [row for row in members[column, value] if row not in taken]
        taken.update(rows)
        for pair in ((other, table.codes[row][other]) for row in rows for other in part.free):
            if pair in counts:
                counts[pair] -= 1
        own = [column, *(other for other in table.determined[column] if other in part.free)]
        yield _Part(rows, (*part.head, *own), tuple(other for other in part.free if other not in own))
    yield from (_Part([row], part.head, part.free) for row in part.rows if row not in taken)


def _members(table: _Table, part: _Part) -> dict[tuple[int, int], list[int]]:
    """Return the rows of each field and value that several rows have."""
    members: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in part.rows:
        codes = table.codes[row]
        for column in part.free:
            if codes[column] >= 0:
                members[column, codes[column]].append(row)
    return {pair: rows for pair, rows in members.items() if len(rows) >= _LEAST}


def _determined(codes: NDArray[np.int32]) -> list[list[int]]:
    """Return for each field the fields that it determines.

    A field whose values never repeat determines every field. It forms no group, so it needs no such fields.
    """
    rows, columns = codes.shape
    distinct = [len(np.unique(codes[:, column])) for column in range(columns)]
    found: list[list[int]] = []
    for column in range(columns):
        own: list[int] = []
        for other in range(columns):
            if other == column or distinct[column] == rows or distinct[other] > distinct[column]:
                continue
            pairs = codes[:, column].astype(np.int64) * (int(codes[:, other].max(initial=0)) + 2) + codes[:, other]
            if len(np.unique(pairs)) == distinct[column]:
                own.append(other)
        found.append(own)
    return found


def _scores(encoded: Encoded, determined: list[list[int]]) -> list[list[float]]:
    squares = [np.square(weights) for weights in encoded.weights]
    scores = []
    for column, own in enumerate(determined):
        score = squares[column].copy()
        for other in own:
            value_of = np.full(len(score), -1, dtype=np.int64)
            there = encoded.codes[:, column] >= 0
            value_of[encoded.codes[there, column]] = encoded.codes[there, other]
            score += np.where(value_of >= 0, np.append(squares[other], 0.0)[value_of], 0.0)
        scores.append(score.tolist())
    return scores
