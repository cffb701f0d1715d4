"""A graph of near vectors; a search walks it towards the query (HNSW, Malkov and Yashunin 2018)."""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from flightllm.vector.kinds.base import Ids, Neighbors, Vectors, metric, selector
from flightllm.vector.options import IndexOptions


class Hnsw(Neighbors):
    """A graph with `neighbors` edges per vector; a search keeps `search_depth` candidates."""

    trains = False

    @classmethod
    def create(cls, vectors: Vectors, options: IndexOptions) -> Any:
        """Return an empty graph."""
        index = faiss.IndexHNSWFlat(vectors.shape[1], options.neighbors, metric(options))
        index.hnsw.efConstruction = options.build_depth
        return index

    @property
    def depth(self) -> int | None:
        """Return the number of candidates that a search keeps."""
        return int(self.index.hnsw.efSearch)

    def wanted_depth(self) -> int | None:
        """Return the configured number of candidates."""
        return self.options.search_depth

    def look(self, depth: int) -> None:
        """Set the number of candidates that a search keeps."""
        self.index.hnsw.efSearch = depth

    def nearest(self, queries: Vectors, count: int) -> tuple[Vectors, Ids]:
        """Walk the graph with at least twice as many candidates as results, because the last ones are inexact."""
        kept = max(self.index.hnsw.efSearch, 2 * count)
        scores, ids = self.index.search(queries, count, params=faiss.SearchParametersHNSW(efSearch=kept))
        return scores, ids

    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Compare the queries with each flagged vector, without the graph."""
        vectors = faiss.downcast_index(self.index.storage)
        scores, ids = vectors.search(queries, count, params=faiss.SearchParameters(sel=selector(within)))
        return scores, ids


KIND = Hnsw
