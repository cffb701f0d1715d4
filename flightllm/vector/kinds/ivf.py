"""Inverted files: vectors in lists around centers, of which a search looks through the nearest."""

from __future__ import annotations

import math
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from flightllm.vector.kinds.base import Ids, Neighbors, Vectors, metric, selector
from flightllm.vector.options import IndexOptions

TRAINED_PER_LIST = 64
"""Vectors per list that training sees: with more it takes longer, and the lists are hardly better."""
_LEAST_PER_LIST = 39
"""With fewer vectors per list faiss warns that its centers mean little."""


class Ivf(Neighbors):
    """Vectors in `lists` lists, of which a search looks through `probes`."""

    trains = True

    @classmethod
    def create(cls, vectors: Vectors, options: IndexOptions) -> Any:
        """Return an empty index whose centers are those of a sample of the vectors."""
        lists = number_of_lists(len(vectors), options)
        index = faiss.IndexIVFFlat(centers(vectors, options), vectors.shape[1], lists, metric(options))
        index.train(sample(vectors, TRAINED_PER_LIST * lists))
        return index

    @property
    def depth(self) -> int | None:
        """Return the lists that a search looks through."""
        return int(self.index.nprobe)

    def wanted_depth(self) -> int | None:
        """Return the lists that the options want looked through."""
        return self.options.probes

    def look(self, depth: int) -> None:
        """Look through so many lists."""
        self.index.nprobe = min(depth, self.index.nlist)
        self.changed()

    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Compare the vectors with a flag, in all lists."""
        everywhere = faiss.SearchParametersIVF(sel=selector(within), nprobe=self.index.nlist)
        scores, ids = self.index.search(queries, count, params=everywhere)
        return scores, ids


def number_of_lists(count: int, options: IndexOptions) -> int:
    """Return how many lists to cut `count` vectors into: four times the root, but no list too short."""
    wanted = options.lists or round(4 * math.sqrt(count))
    return max(1, min(wanted, count // _LEAST_PER_LIST))


def centers(vectors: Vectors, options: IndexOptions) -> Any:
    """Return the index of centers, by the metric of the vectors."""
    kind = faiss.IndexFlatL2 if options.metric == "l2" else faiss.IndexFlatIP
    return kind(vectors.shape[1])


def sample(vectors: Vectors, count: int) -> Vectors:
    """Return `count` vectors from all over, or all where there are fewer."""
    if count >= len(vectors):
        return vectors
    places = np.random.default_rng(0).choice(len(vectors), count, replace=False)
    return vectors[np.sort(places)]


KIND = Ivf
