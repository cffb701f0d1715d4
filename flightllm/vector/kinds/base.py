"""Nearest neighbors by faiss: the base class of all kinds of index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError, MissingExtraError
from flightllm.storage.disk import as_disk_error
from flightllm.vector.options import IndexOptions

try:
    import faiss
except ImportError as error:
    raise MissingExtraError("a vector index", "vector") from error

Vectors: TypeAlias = NDArray[np.float32]
"""Shape: rows x dimensions."""
Ids: TypeAlias = NDArray[np.int64]

_ADDED = 65_536
_TUNED_QUERIES, _TUNED_NEIGHBORS, _TUNED_RECALL = 200, 10, 0.98
"""Without a configured depth, searches go as deep as finds this share of a sample's true neighbors."""
_DEEPEST = 1 << 14
_MOST_ON_GPU = 2_048
"""The largest number of neighbors that faiss can search for on a GPU."""

faiss.cvar.distance_compute_blas_threshold = 4_096
"""The batch size, in numbers, from which faiss multiplies matrices. With faiss's own 128,000, a search for 100 vectors
of 384 numbers takes twelve times as long."""


class Neighbors(ABC):
    """Vectors with ids from 0. Threads can search at the same time, but not while one appends.

    Closer vectors have higher scores: the cosine, the inner product, or minus the Euclidean distance.
    """

    trains: ClassVar[bool]
    """Whether the index must be trained on vectors before any are added."""

    def __init__(self, index: Any, options: IndexOptions) -> None:
        self.index = index
        self.options = options
        self._searched: Any = None
        """The index or its copy on GPUs, set by the first search."""

    @classmethod
    def build(cls, ready: Vectors, options: IndexOptions) -> Self:
        """Index vectors that `prepared` returned, one per row; they can be a memory-mapped file.

        Raises:
            InvalidInputError: an option does not fit the vectors.
        """
        built = cls(cls.create(ready, options), options)
        built.append(ready)
        built.settle(ready)
        return built

    @classmethod
    @abstractmethod
    def create(cls, vectors: Vectors, options: IndexOptions) -> Any:
        """Return an empty faiss index, trained on `vectors` if its kind needs training."""

    @classmethod
    def read(cls, path: Path, options: IndexOptions) -> Self:
        """Read an index file that `write` wrote.

        Raises:
            InvalidInputError: faiss cannot read the file.
        """
        try:
            return cls(faiss.read_index(str(path)), options)
        except RuntimeError as error:
            raise InvalidInputError(f"the index file {path.name} cannot be read") from error

    def write(self, path: Path) -> None:
        """Write the index to a file.

        Python writes the file, because faiss ignores errors when it flushes the end of a file itself.

        Raises:
            OSError: the disk is full or fails.
        """
        with path.open("wb") as file:
            try:
                faiss.write_index(self.index, faiss.PyCallbackIOWriter(file.write))
            except RuntimeError as error:
                raise as_disk_error(error) from error

    @property
    def count(self) -> int:
        """Return the number of vectors."""
        return int(self.index.ntotal)

    @property
    def dimensions(self) -> int:
        """Return the length of a vector."""
        return int(self.index.d)

    @property
    def depth(self) -> int | None:
        """Return the search depth: lists probed, or candidates in the graph; None if all vectors are compared."""
        return None

    def wanted_depth(self) -> int | None:
        """Return the configured depth: 0 if it is not configured, None for a kind that compares all vectors."""
        return None

    def look(self, depth: int) -> None:
        """Set the search depth. Kinds that compare all vectors do not implement this."""
        raise NotImplementedError

    def append(self, ready: Vectors) -> None:
        """Append vectors that `prepared` returned; the index is not trained again."""
        for part in parts(ready):
            self.index.add(part)
        self.changed()

    def settle(self, ready: Vectors) -> None:
        """Set the search depth once all vectors are added: the configured depth, or one found by trials on `ready`."""
        depth = self.wanted_depth()
        if depth:
            self.look(depth)
        elif depth is not None:
            self._tune(ready)

    def search(self, queries: Vectors, count: int, within: NDArray[np.bool_] | None = None) -> tuple[Vectors, Ids]:
        """Return the scores and ids of each query's `count` nearest vectors; the id -1 fills missing results.

        `within`, a flag per vector, restricts the search to flagged vectors: it compares all of them, so it is exact.
        """
        ready = prepared(queries, self.options.metric)
        count = min(count, self.count if within is None else int(within.sum()))
        if not count or not len(ready):
            return np.empty((len(ready), 0), np.float32), np.empty((len(ready), 0), np.int64)
        scores, ids = self.nearest(ready, count) if within is None else self.among(ready, count, within)
        return (-np.sqrt(np.maximum(scores, 0)) if self.options.metric == "l2" else scores), ids

    def nearest(self, queries: Vectors, count: int) -> tuple[Vectors, Ids]:
        """Search all vectors; the scores are faiss's own."""
        scores, ids = self.searched(count).search(queries, count)
        return scores, ids

    def searched(self, count: int) -> Any:
        """Return the index to search for `count` neighbors: its copy on GPUs, or the index itself."""
        if count > _MOST_ON_GPU:
            return self.index
        if self._searched is None:
            self._searched = on_gpus(self.index)
        return self._searched

    def changed(self) -> None:
        """Drop the copy on GPUs, because the index has changed."""
        self._searched = None

    def vectors(self) -> Vectors:
        """Return the vectors of an index that stores them contiguously; the next `append` invalidates this view."""
        stored = faiss.downcast_index(getattr(self.index, "storage", self.index))
        numbers = faiss.rev_swig_ptr(stored.get_xb(), stored.ntotal * stored.d)
        found: Vectors = numbers.reshape(stored.ntotal, stored.d)
        return found

    @abstractmethod
    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Search the flagged vectors exactly; the scores are faiss's own."""

    def _tune(self, ready: Vectors) -> None:
        """Double the depth until searches find nearly all true neighbors of a sample of the vectors.

        Each sampled vector is its own nearest neighbor, so its own id does not count. With 3 neighbors in place of 10:

        | sampled id | `true` ids | `others` | `found` ids at this depth | recall |
        |---|---|---|---|---|
        | 5 | 5, 1, 9, 4 | 1, 4, 9 | 5, 1, 8, 9 | 2/3 |
        """
        wanted = min(_TUNED_NEIGHBORS + 1, len(ready))
        places = np.unique(np.linspace(0, len(ready) - 1, _TUNED_QUERIES).astype(np.int64))
        queries = np.ascontiguousarray(ready[places])
        _, true = faiss.knn(queries, ready, wanted, metric=metric(self.options))
        others = [np.setdiff1d(near, place) for near, place in zip(true, places, strict=True)]
        depth, recall = 1, 0.0
        while recall < _TUNED_RECALL and depth < _DEEPEST:
            depth *= 2
            self.look(depth)
            if self.depth != depth:  # this depth already covers the whole index
                return
            _, found = self.nearest(queries, wanted)
            recall = float(np.mean([np.isin(a, b).mean() if len(a) else 1 for a, b in zip(others, found, strict=True)]))


class _OneAtATime:
    """An index on GPUs, with a lock, because faiss cannot search it from several threads at once."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._lock = Lock()

    def search(self, queries: Vectors, count: int) -> tuple[Vectors, Ids]:
        """Search like a faiss index."""
        with self._lock:
            scores, ids = self._index.search(queries, count)
        return scores, ids


def on_gpus(index: Any) -> Any:
    """Return a copy of an index on the GPUs that the installed faiss can use, or the index itself.

    The result is the index itself without a GPU, for kinds that run only on CPUs, or if models fill the memory.
    """
    if not faiss.get_num_gpus():
        return index
    try:
        return _OneAtATime(faiss.index_cpu_to_all_gpus(index))
    except RuntimeError:
        return index


def metric(options: IndexOptions) -> int:
    """Return faiss's number of the metric; the cosine is the inner product of vectors of length 1."""
    number: int = faiss.METRIC_L2 if options.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    return number


def selector(within: NDArray[np.bool_]) -> Any:
    """Return the faiss selector of the flagged vectors."""
    return faiss.IDSelectorBitmap(np.packbits(within, bitorder="little"))


def prepared(vectors: Vectors, name: str) -> Vectors:
    """Return vectors as faiss needs them; for the cosine they get length 1, except vectors of length 0."""
    ready = np.ascontiguousarray(vectors, np.float32)
    if name == "cosine":
        lengths = np.linalg.norm(ready, axis=1, keepdims=True)
        ready = np.divide(ready, np.where(lengths > 0, lengths, 1), dtype=np.float32)
    return ready


def parts(vectors: Vectors) -> Iterator[Vectors]:
    """Cut vectors into parts that faiss can copy at once."""
    return (vectors[start : start + _ADDED] for start in range(0, len(vectors), _ADDED))
