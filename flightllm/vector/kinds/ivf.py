"""Inverted files: vectors in lists around centers; a search compares the vectors of the nearest lists."""

from __future__ import annotations

import math
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from flightllm.vector.kinds.base import Ids, Neighbors, Vectors, metric, selector
from flightllm.vector.options import IndexOptions

TRAINED_PER_LIST = 64
"""Training samples this many vectors per list; more take longer, and hardly improve the lists."""
_LEAST_PER_LIST = 39
"""Below this many vectors per list, faiss warns that the centers are poor."""


class Ivf(Neighbors):
    """Vectors in `lists` lists; a search compares those of the nearest `probes` lists."""

    trains = True

    @classmethod
    def create(cls, vectors: Vectors, options: IndexOptions) -> Any:
        """Return an empty index with centers trained on a sample of the vectors."""
        lists = number_of_lists(len(vectors), options)
        index = faiss.IndexIVFFlat(centers(vectors, options), vectors.shape[1], lists, metric(options))
        index.train(sample(vectors, TRAINED_PER_LIST * lists))
        return index

    @property
    def depth(self) -> int | None:
        """Return the number of lists that a search compares."""
        return int(self.index.nprobe)

    def wanted_depth(self) -> int | None:
        """Return the configured number of lists to compare."""
        return self.options.probes

    def look(self, depth: int) -> None:
        """Set the number of lists that a search compares."""
        self.index.nprobe = min(depth, self.index.nlist)
        self.changed()

    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Compare the flagged vectors of all lists."""
        everywhere = faiss.SearchParametersIVF(sel=selector(within), nprobe=self.index.nlist)
        scores, ids = self.index.search(queries, count, params=everywhere)
        return scores, ids


def number_of_lists(count: int, options: IndexOptions) -> int:
    """Return the number of lists for `count` vectors: four times the square root, but no list too short."""
    wanted = options.lists or round(4 * math.sqrt(count))
    return max(1, min(wanted, count // _LEAST_PER_LIST))


def centers(vectors: Vectors, options: IndexOptions) -> Any:
    """Return a faiss index for the centers, with the metric of the vectors."""
    kind = faiss.IndexFlatL2 if options.metric == "l2" else faiss.IndexFlatIP
    return kind(vectors.shape[1])


def sample(vectors: Vectors, count: int) -> Vectors:
    """Return `count` random vectors in order, or all vectors if there are fewer."""
    if count >= len(vectors):
        return vectors
    places = np.random.default_rng(0).choice(len(vectors), count, replace=False)
    return vectors[np.sort(places)]


KIND = Ivf
