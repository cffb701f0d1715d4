"""Exact search: compares all vectors."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from flightllm.vector.kinds.base import Ids, Neighbors, Vectors, metric, selector
from flightllm.vector.options import IndexOptions


class FlatIndex(Neighbors):
    """Every search compares every vector."""

    trains = False

    @classmethod
    def create(cls, vectors: Vectors, options: IndexOptions) -> Any:
        """Return an empty index."""
        return faiss.IndexFlat(vectors.shape[1], metric(options))

    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Compare the flagged vectors."""
        scores, ids = self.index.search(queries, count, params=faiss.SearchParameters(sel=selector(within)))
        return scores, ids


KIND = FlatIndex
