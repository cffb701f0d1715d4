"""Inverted files of compressed vectors (Jégou et al. 2011): little memory; candidates are compared on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import faiss
import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.vector.kinds.base import Ids, Vectors, metric
from flightllm.vector.kinds.ivf import Ivf, centers, number_of_lists, sample
from flightllm.vector.options import IndexOptions

_BITS = 8
_TRAINED = 256 * 64
"""The number of vectors from which the code books are trained."""
_DIMENSIONS_PER_CODE = 4
_CANDIDATES = 10
"""The number of candidates by codes for each requested neighbor."""
_COMPARED = 1 << 26
"""The largest number of full vectors' numbers in memory at once."""


class IvfPq(Ivf):
    """Each vector takes `codes` bytes of memory; full vectors are in a file, and only candidates are read from it."""

    def __init__(self, index: Any, options: IndexOptions, full: Vectors | None = None) -> None:
        super().__init__(index, options)
        self._full = np.empty((0, index.d), np.float32) if full is None else full
        self._added: list[Vectors] = []
        """Appended full vectors; the next read joins them to the others."""

    @classmethod
    def create(cls, vectors: Vectors, options: IndexOptions) -> Any:
        """Return an empty index with centers and code books trained on a sample of the vectors.

        Raises:
            InvalidInputError: `codes` does not divide the vectors' length, or there are too few vectors.
        """
        count, size = vectors.shape
        if count < 1 << _BITS:
            raise InvalidInputError(f"an index of type ivfpq needs at least {1 << _BITS} rows; use type 'flat'")
        codes = options.codes or _most_codes(size)
        if size % codes:
            raise InvalidInputError(f"vectors of {size} numbers cannot be cut into {codes} codes: choose a divisor")
        lists = number_of_lists(count, options)
        index = faiss.IndexIVFPQ(centers(vectors, options), size, lists, codes, _BITS, metric(options))
        index.train(sample(vectors, max(_TRAINED, 64 * lists)))
        return index

    @classmethod
    def read(cls, path: Path, options: IndexOptions) -> Self:
        """Read an index that `write` wrote; full vectors stay on disk."""
        codes = super().read(path, options)
        try:
            return cls(codes.index, options, np.load(path.with_suffix(".npy"), mmap_mode="r"))
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"the vectors beside {path.name} cannot be read") from error

    def write(self, path: Path) -> None:
        """Write the codes to a file, and the full vectors to a `.npy` file beside it."""
        super().write(path)
        np.save(path.with_suffix(".npy"), self.full)

    def nearest(self, queries: Vectors, count: int) -> tuple[Vectors, Ids]:
        """Find candidates by their codes, and compare their full vectors."""
        wanted = min(self.count, _CANDIDATES * count)
        _, candidates = self.searched(wanted).search(queries, wanted)
        scores = np.empty(candidates.shape, np.float32)
        l2 = self.options.metric == "l2"
        compare = faiss.fvec_L2sqr_by_idx if l2 else faiss.fvec_inner_products_by_idx
        pointers = map(faiss.swig_ptr, (scores, queries, self.full, candidates))
        compare(*pointers, self.dimensions, *candidates.shape)  # a missing candidate (-1) gets an infinite distance
        order = (scores if l2 else -scores).argsort(axis=1, kind="stable")[:, :count]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(candidates, order, 1)

    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Compare the flagged full vectors, some at a time."""
        places = np.flatnonzero(within)
        heap = faiss.ResultHeap(len(queries), count, keep_max=self.options.metric != "l2")
        step = max(1, _COMPARED // self.dimensions)
        for start in range(0, len(places), step):
            some = places[start : start + step]
            found, at = faiss.knn(
                queries, np.ascontiguousarray(self.full[some]), min(count, len(some)), metric(self.options)
            )
            heap.add_result(found, some[at])
        heap.finalize()
        return heap.D, heap.I

    def append(self, ready: Vectors) -> None:
        """Append the codes and the full vectors."""
        super().append(ready)
        self._added.append(ready)

    @property
    def full(self) -> Vectors:
        """Return the full vectors."""
        if self._added:
            given = [self._full, *self._added] if len(self._full) else self._added
            self._full, self._added = given[0] if len(given) == 1 else np.concatenate(given), []
        return self._full


def _most_codes(size: int) -> int:
    """Return the largest divisor of a vector's length that leaves at least four numbers per code."""
    return next(codes for codes in range(max(1, size // _DIMENSIONS_PER_CODE), 0, -1) if size % codes == 0)


KIND = IvfPq
