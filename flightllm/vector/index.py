"""An open index: finds rows by meaning, by words, or by both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.engines.embed.base import Vectors
from flightllm.errors import InvalidInputError
from flightllm.vector.build import INDEX, ROWS, WORDS, read_rows
from flightllm.vector.folder import IndexFolder
from flightllm.vector.kinds import load_kind
from flightllm.vector.kinds.base import Ids, Neighbors
from flightllm.vector.manifest import IndexManifest
from flightllm.vector.words import Words

Mode = Literal["vector", "text", "hybrid"]
_RANK_CONSTANT = 60
_FUSED = 50
"""Each list contributes at least this many rows to the fusion."""


@dataclass(frozen=True, slots=True)
class Found:
    """The rows found for some queries, each query's best row first.

    The rows of query i are at `offsets[i]` to `offsets[i + 1]`. Here query 0 found rows 7 and 2, query 1 found none,
    and query 2 found row 7:

    | offsets | ids | scores |
    |---|---|---|
    | 0, 2, 2, 3 | 7, 2, 7 | 0.9, 0.4, 0.8 |
    """

    offsets: NDArray[np.int32]
    ids: Ids
    scores: Vectors

    @classmethod
    def of(cls, lists: Sequence[tuple[Vectors, Ids]]) -> Found:
        """Concatenate the scores and ids of each query."""
        offsets = np.cumsum([0, *(len(ids) for _, ids in lists)], dtype=np.int32)
        ids = np.concatenate([np.empty(0, np.int64), *(ids for _, ids in lists)])
        return cls(offsets, ids, np.concatenate([np.empty(0, np.float32), *(scores for scores, _ in lists)]))

    def __iter__(self) -> Iterator[tuple[Vectors, Ids]]:
        """Yield the scores and ids of each query."""
        for start, end in pairwise(self.offsets):
            yield self.scores[start:end], self.ids[start:end]


class VectorIndex:
    """One open generation of an index. Threads can search at the same time."""

    def __init__(
        self, manifest: IndexManifest, rows: pa.Table, neighbors: Neighbors | None, words: Words | None
    ) -> None:
        self.manifest = manifest
        self.rows = rows
        self.neighbors = neighbors
        self._words = words
        self._batches = rows.to_batches()
        self._ends = np.cumsum([len(batch) for batch in self._batches], dtype=np.int64)

    @classmethod
    def open(cls, folder: IndexFolder, manifest: IndexManifest) -> VectorIndex:
        """Open an index whose files passed `IndexFolder.check`.

        Raises:
            InvalidInputError: a file cannot be read.
        """
        path = folder.generation(manifest)
        neighbors = load_kind(manifest.options.type).read(path / INDEX, manifest.options) if manifest.rows else None
        words = Words.read(path / WORDS) if (path / WORDS).is_dir() else None
        try:
            return cls(manifest, read_rows(path / ROWS), neighbors, words)
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidInputError("its rows cannot be read") from error

    def take(self, ids: Ids, columns: Sequence[str]) -> pa.RecordBatch:
        """Return some columns of the rows with these ids, in the order of `ids`.

        pyarrow's own take would read all rows, because it joins the table's batches first. This takes each batch's rows
        in
        ascending order, concatenates them, and restores the order. Example with the batches `[r0, r1]` and `[r2]`:

        | step | value |
        |---|---|
        | `ids` | 2, 0, 1 |
        | `order`, positions of ascending ids | 1, 2, 0 |
        | taken per batch | r0, r1 from the first; r2 from the second |
        | `back`, position of each id in the taken rows | 2, 0, 1 |
        | result | r2, r0, r1 |
        """
        order = np.argsort(ids, kind="stable")
        cuts = np.searchsorted(ids[order], self._ends)
        parts = [pa.RecordBatch.from_pylist([], self.rows.select(columns).schema)]
        for number, (first, last) in enumerate(pairwise([0, *cuts])):
            if first < last:
                start = self._ends[number] - len(self._batches[number])
                parts.append(self._batches[number].select(columns).take(pa.array(ids[order[first:last]] - start)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_batches(parts).take(pa.array(back))

    def search(
        self,
        count: int,
        mode: Mode,
        texts: Sequence[str] | None,
        vectors: Vectors | None,
        within: NDArray[np.bool_] | None = None,
    ) -> Found:
        """Return up to `count` rows per query; `within`, a flag per row, restricts the search to flagged rows.

        The mode `vector` needs the queries' vectors, `text` their texts, and `hybrid` both. A hybrid score is the sum
        of
        1 / (60 + rank) over both lists (reciprocal rank fusion, Cormack et al. 2009). Of rows with equal scores, the
        one
        that ranks better in the text search is first.

        Raises:
            InvalidInputError: the vectors have another length than the index's, or a vector index has no text to
                search.
        """
        if mode == "vector":
            return self._nearest(count, vectors, within)
        if mode == "text":
            return self._worded(count, texts, within)
        most = max(_FUSED, count)
        lists = zip(self._worded(most, texts, within), self._nearest(most, vectors, within), strict=True)
        return Found.of([fuse([ids for _, ids in both], count) for both in lists])

    def _nearest(self, count: int, vectors: Vectors | None, within: NDArray[np.bool_] | None) -> Found:
        if vectors is None:
            raise InvalidInputError("a search by meaning needs the queries' vectors")
        if self.neighbors is None:
            return _nothing(len(vectors))
        if vectors.shape[1] != self.neighbors.dimensions:
            raise InvalidInputError(
                f"the index {self.manifest.name} has vectors of {self.neighbors.dimensions} numbers, but the query"
                f" vector has {vectors.shape[1]}"
            )
        scores, ids = self.neighbors.search(vectors, count, within)
        there = ids >= 0
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(there.sum(axis=1), dtype=np.int32)])
        return Found(offsets, ids[there], scores[there])

    def _worded(self, count: int, texts: Sequence[str] | None, within: NDArray[np.bool_] | None) -> Found:
        if texts is None:
            raise InvalidInputError("a text search needs the queries' texts")
        if self._words is None:
            if not self.manifest.rows:
                return _nothing(len(texts))
            raise InvalidInputError(f"the index {self.manifest.name} has no text to search, because it is over vectors")
        return Found.of([self._words.search(text, count, within) for text in texts])


def _nothing(queries: int) -> Found:
    return Found(np.zeros(queries + 1, np.int32), np.empty(0, np.int64), np.empty(0, np.float32))


def fuse(lists: Sequence[Ids], count: int) -> tuple[Vectors, Ids]:
    """Fuse ranked lists into the scores and ids of the best `count` rows.

    Of rows with equal scores, the first list's come first. Row 7 of the lists [7, 2] and [2, 7] has the score
    1/61 + 1/62, as has row 2, so the result is [7, 2].
    """
    scores: dict[int, float] = {}
    for ids in lists:
        for rank, row in enumerate(ids.tolist(), 1):
            scores[row] = scores.get(row, 0.0) + 1 / (_RANK_CONSTANT + rank)
    best = sorted(scores, key=lambda row: -scores[row])[:count]
    return np.array([scores[row] for row in best], np.float32), np.array(best, np.int64)
