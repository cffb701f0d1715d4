"""An open index: rows by what they mean, by their words, or by both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.llm.embed.base import Vectors
from flightllm.vector.build import INDEX, ROWS, WORDS, read_rows
from flightllm.vector.folder import IndexFolder
from flightllm.vector.kinds import kind
from flightllm.vector.kinds.base import Ids, Neighbors
from flightllm.vector.manifest import Manifest
from flightllm.vector.words import Words

Mode = Literal["vector", "text", "hybrid"]
MODES: tuple[Mode, ...] = ("vector", "text", "hybrid")
_RANK_CONSTANT = 60
_FUSED = 50
"""Rows of each list that are fused, at least."""


@dataclass(frozen=True, slots=True)
class Found:
    """The rows found for one query, the best first: their scores and numbers."""

    scores: Vectors
    ids: Ids


class VectorIndex:
    """One generation of an index, opened. Searches may run at the same time."""

    def __init__(self, manifest: Manifest, rows: pa.Table, neighbors: Neighbors | None, words: Words | None) -> None:
        self.manifest = manifest
        self.rows = rows
        self.neighbors = neighbors
        self._words = words

    @classmethod
    def open(cls, folder: IndexFolder, manifest: Manifest) -> VectorIndex:
        """Open an index whose files `IndexFolder.check` found whole.

        Raises:
            InvalidInputError: a file cannot be read.
        """
        path = folder.generation(manifest)
        neighbors = kind(manifest.options.type).read(path / INDEX, manifest.options) if manifest.rows else None
        words = Words.read(path / WORDS) if (path / WORDS).is_dir() else None
        try:
            return cls(manifest, read_rows(path / ROWS), neighbors, words)
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidInputError("its rows cannot be read") from error

    def search(
        self,
        count: int,
        mode: Mode,
        texts: Sequence[str] | None,
        vectors: Vectors | None,
        within: NDArray[np.bool_] | None = None,
    ) -> list[Found]:
        """Return up to `count` rows per query; with `within`, a flag per row, only among those.

        `vector` needs the queries' vectors, `text` their texts and `hybrid` both: its score is the sum of 1 / (60 +
        rank) over both lists (Cormack et al. 2009, reciprocal rank fusion).

        Raises:
            InvalidInputError: vectors of another length, or a text search in an index of vectors.
        """
        if mode == "vector":
            return self._nearest(count, vectors, within)
        if mode == "text":
            return self._worded(count, texts, within)
        most = max(_FUSED, count)
        lists = zip(self._nearest(most, vectors, within), self._worded(most, texts, within), strict=True)
        return [fuse([one.ids for one in both], count) for both in lists]

    def _nearest(self, count: int, vectors: Vectors | None, within: NDArray[np.bool_] | None) -> list[Found]:
        if vectors is None:
            raise InvalidInputError("a search by meaning needs vectors")
        if self.neighbors is None:
            return [_NOTHING] * len(vectors)
        if vectors.shape[1] != self.neighbors.dimensions:
            raise InvalidInputError(
                f"the index {self.manifest.name} has vectors of {self.neighbors.dimensions} numbers, the query one of"
                f" {vectors.shape[1]}"
            )
        scores, ids = self.neighbors.search(vectors, count, within)
        return [Found(s[i >= 0], i[i >= 0]) for s, i in zip(scores, ids, strict=True)]

    def _worded(self, count: int, texts: Sequence[str] | None, within: NDArray[np.bool_] | None) -> list[Found]:
        if texts is None:
            raise InvalidInputError("a text search needs texts")
        if self._words is None:
            if not self.manifest.rows:
                return [_NOTHING] * len(texts)
            raise InvalidInputError(f"the index {self.manifest.name} is over vectors: it has no text to search")
        return [Found(*self._words.search(text, count, within)) for text in texts]


_NOTHING = Found(np.empty(0, np.float32), np.empty(0, np.int64))


def fuse(lists: Sequence[Ids], count: int) -> Found:
    """Fuse ranked lists into one of up to `count` rows; of equal ones those of the first list come first."""
    scores: dict[int, float] = {}
    for ids in lists:
        for rank, row in enumerate(ids.tolist(), 1):
            scores[row] = scores.get(row, 0.0) + 1 / (_RANK_CONSTANT + rank)
    best = sorted(scores, key=lambda row: -scores[row])[:count]
    return Found(np.array([scores[row] for row in best], np.float32), np.array(best, np.int64))
