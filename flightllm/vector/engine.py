"""Vector searches for a column of queries, which return the numbers, scores and values of the found rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.llm.embed.base import Vectors
from flightllm.vector.index import Found, Mode, VectorIndex
from flightllm.vector.store import VectorIndexes

_FOUND = pa.struct([("row", pa.int64()), ("score", pa.float32())])
Embed = Callable[[Sequence[str]], Vectors]
Matching = Callable[[VectorIndex, str], NDArray[np.bool_]]
"""Takes an index and an SQL condition; returns for each row whether the condition is true."""


@dataclass(frozen=True, slots=True)
class Search:
    """The arguments of a search call; the call was planned for this `generation` of the index."""

    index: str
    generation: str
    count: int
    mode: Mode = "vector"
    filter: str = ""
    returning: str = ""

    def as_text(self) -> str:
        """Return the search as JSON, which is the instruction of its call."""
        return json.dumps(asdict(self))


def found_type(rows: pa.Schema) -> pa.StructType:
    """Return the type of a found row: the index's columns and a score."""
    return pa.struct([*rows, pa.field("score" if "score" not in rows.names else "score_2", pa.float32())])


class IndexSearcher:
    """Opens searches in the server's indexes."""

    def __init__(self, indexes: VectorIndexes, embed: Embed, matching: Matching) -> None:
        self._indexes = indexes
        self._embed = embed
        self._matching = matching

    def open(self, instruction: str) -> IndexSearch:
        """Return the search in a call's instruction, with its index open.

        Raises:
            InvalidInputError: the index is damaged.
        """
        search = Search(**json.loads(instruction))
        index = self._indexes.open(search.index, search.generation)
        return IndexSearch(index, search, self._embed, self._matching(index, search.filter) if search.filter else None)


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """One call's search in an open index.

    `within` is true for each row that the search can return; None allows all rows.
    """

    index: VectorIndex
    search: Search
    embed: Embed
    within: NDArray[np.bool_] | None

    @property
    def most(self) -> int:
        """Return the largest number of rows for one query."""
        return max(1, min(self.search.count, len(self.index.rows)))

    def find(self, queries: pa.Array) -> pa.ListArray:
        """Return the row numbers and scores of each query's found rows, the best row first.

        Raises:
            InvalidInputError: a query vector does not have the length of the index's vectors.
            EngineError: the embedding model is no longer available.
        """
        found = self._found(queries.to_pylist()) if len(queries) else Found.of([])
        rows = pa.StructArray.from_arrays([pa.array(found.ids), pa.array(found.scores)], fields=[*_FOUND])
        return pa.ListArray.from_arrays(pa.array(found.offsets), rows)

    def values(self, found: pa.ListArray) -> pa.ListArray:
        """Return the call's result for found rows.

        The search's `returning` names one column or the score. If it is empty, each row is a struct of all columns and
        the score.
        """
        offsets = np.zeros(len(found) + 1, np.int32)
        np.cumsum(found.value_lengths().fill_null(0), out=offsets[1:])
        rows, scores = found.flatten().flatten()
        kind = found_type(self.index.rows.schema)
        if not self.search.returning:
            taken = self.index.take(rows.to_numpy(), kind.names[:-1])
            values = pa.StructArray.from_arrays([*taken.columns, scores], fields=[*kind])
        elif self.search.returning == kind.names[-1]:
            values = scores
        else:
            [values] = self.index.take(rows.to_numpy(), [self.search.returning]).columns
        return pa.ListArray.from_arrays(pa.array(offsets), values, mask=found.is_null())

    def _found(self, queries: list[Any]) -> Found:
        search, index = self.search, self.index
        if not index.manifest.model:
            return index.search(search.count, search.mode, None, _vectors(queries), self.within)
        vectors = None if search.mode == "text" else self.embed(queries)
        return index.search(search.count, search.mode, queries, vectors, self.within)


def _vectors(vectors: Sequence[bytes]) -> Vectors:
    """Decode the vectors that SQL passes as bytes.

    Raises:
        InvalidInputError: the vectors have different lengths, NULL, NaN or infinity.
    """
    lengths = sorted({len(vector) // np.dtype(np.float32).itemsize for vector in vectors})
    if len(lengths) > 1:
        raise InvalidInputError(
            f"the query vectors have different lengths: {', '.join(map(str, lengths))};"
            " give each the length of the index's vectors"
        )
    found = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), lengths[0])
    if not np.isfinite(found).all():
        raise InvalidInputError("a query vector has NULL, NaN or infinity in it")
    return found
