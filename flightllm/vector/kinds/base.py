"""Nearest neighbours of vectors by faiss: what all kinds of index have in common."""

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
"""Rows × dimensions."""
Ids: TypeAlias = NDArray[np.int64]

_ADDED = 65_536
_TUNED_QUERIES, _TUNED_NEIGHBORS, _TUNED_RECALL = 200, 10, 0.98
"""Left to itself an index looks as far as finds this share of the true neighbours of some of its vectors."""
_DEEPEST = 1 << 14
_MOST_ON_GPU = 2_048
"""Neighbours that faiss can look for on a GPU."""

faiss.cvar.distance_compute_blas_threshold = 4_096
"""Numbers in a batch of queries from which on faiss multiplies matrices; its own 128,000 makes a search for 100 vectors
of 384 numbers twelve times as slow."""


class Neighbors(ABC):
    """Vectors by number, 0 on. Searches may run at the same time, not beside `append`.

    A score is higher for what is closer: the cosine, the inner product, or minus the Euclidean distance.
    """

    trains: ClassVar[bool]
    """Whether an index learns from the vectors before any is added."""

    def __init__(self, index: Any, options: IndexOptions) -> None:
        self.index = index
        self.options = options
        self._searched: Any = None
        """The index or its copy on GPUs, once something was searched for."""

    @classmethod
    def build(cls, ready: Vectors, options: IndexOptions) -> Self:
        """Index vectors that `prepared` returned, one row each; they may be a file in memory.

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
        """Return an empty faiss index, trained on `vectors` where its kind needs that."""

    @classmethod
    def read(cls, path: Path, options: IndexOptions) -> Self:
        """Read what `write` wrote.

        Raises:
            InvalidInputError: faiss cannot read the file.
        """
        try:
            return cls(faiss.read_index(str(path)), options)
        except RuntimeError as error:
            raise InvalidInputError(f"the index file {path.name} cannot be read") from error

    def write(self, path: Path) -> None:
        """Write the index to a file.

        Python writes: faiss takes no notice where the last part of a file of its own cannot be written.

        Raises:
            OSError: the disk is full, or fails.
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
        """Return how far a search looks: lists probed, or candidates of the graph; None where it looks at all."""
        return None

    def wanted_depth(self) -> int | None:
        """Return how far the options want searches to look, 0 where they leave it open, None where it looks at all."""
        return None

    def look(self, depth: int) -> None:
        """Let searches look so far; a kind that looks at all vectors is not asked to."""
        raise NotImplementedError

    def append(self, ready: Vectors) -> None:
        """Add vectors that `prepared` returned after those that are there; the index is not trained anew."""
        for part in parts(ready):
            self.index.add(part)
        self.changed()

    def settle(self, ready: Vectors) -> None:
        """Choose how far searches look, once all vectors are in: as the options say, else by trying on `ready`."""
        depth = self.wanted_depth()
        if depth:
            self.look(depth)
        elif depth is not None:
            self._tune(ready)

    def search(self, queries: Vectors, count: int, within: NDArray[np.bool_] | None = None) -> tuple[Vectors, Ids]:
        """Return the scores and numbers of the `count` nearest vectors of each query, -1 where there are no more.

        With `within`, a flag per vector, only among those: that search compares with all of them, so it is exact.
        """
        ready = prepared(queries, self.options.metric)
        count = min(count, self.count if within is None else int(within.sum()))
        if not count or not len(ready):
            return np.empty((len(ready), 0), np.float32), np.empty((len(ready), 0), np.int64)
        scores, ids = self.nearest(ready, count) if within is None else self.among(ready, count, within)
        return (-np.sqrt(np.maximum(scores, 0)) if self.options.metric == "l2" else scores), ids

    def nearest(self, queries: Vectors, count: int) -> tuple[Vectors, Ids]:
        """Search all vectors; scores are faiss's own."""
        scores, ids = self.searched(count).search(queries, count)
        return scores, ids

    def searched(self, count: int) -> Any:
        """Return what to search all vectors in for `count` neighbours."""
        if count > _MOST_ON_GPU:
            return self.index
        if self._searched is None:
            self._searched = on_gpus(self.index)
        return self._searched

    def changed(self) -> None:
        """Forget the copy on GPUs: the index is another."""
        self._searched = None

    def vectors(self) -> Vectors:
        """Return the vectors of an index that keeps them one after the other; a view, good until the next is added."""
        stored = faiss.downcast_index(getattr(self.index, "storage", self.index))
        numbers = faiss.rev_swig_ptr(stored.get_xb(), stored.ntotal * stored.d)
        found: Vectors = numbers.reshape(stored.ntotal, stored.d)
        return found

    @abstractmethod
    def among(self, queries: Vectors, count: int, within: NDArray[np.bool_]) -> tuple[Vectors, Ids]:
        """Search the vectors with a flag exactly; scores are faiss's own."""

    def _tune(self, ready: Vectors) -> None:
        """Look as far as it takes to find nearly all true neighbours of some of the vectors, these aside."""
        wanted = min(_TUNED_NEIGHBORS + 1, len(ready))
        places = np.unique(np.linspace(0, len(ready) - 1, _TUNED_QUERIES).astype(np.int64))
        queries = np.ascontiguousarray(ready[places])
        _, true = faiss.knn(queries, ready, wanted, metric=metric(self.options))
        others = [np.setdiff1d(near, place) for near, place in zip(true, places, strict=True)]
        depth, recall = 1, 0.0
        while recall < _TUNED_RECALL and depth < _DEEPEST:
            depth *= 2
            self.look(depth)
            if self.depth != depth:  # there is no more to look at
                return
            _, found = self.nearest(queries, wanted)
            recall = float(np.mean([np.isin(a, b).mean() if len(a) else 1 for a, b in zip(others, found, strict=True)]))


class _OneAtATime:
    """An index on GPUs, which cannot search for several threads at once."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self._lock = Lock()

    def search(self, queries: Vectors, count: int) -> tuple[Vectors, Ids]:
        """Search as any faiss index does."""
        with self._lock:
            scores, ids = self._index.search(queries, count)
        return scores, ids


def on_gpus(index: Any) -> Any:
    """Return a copy of an index on the GPUs that the installed faiss can use; the index itself where there is none.

    Some kinds there are for CPUs alone, and a GPU's memory may be the language model's.
    """
    if not faiss.get_num_gpus():
        return index
    try:
        return _OneAtATime(faiss.index_cpu_to_all_gpus(index))
    except RuntimeError:
        return index


def metric(options: IndexOptions) -> int:
    """Return faiss's number of the metric; the cosine is the inner product of vectors of length one."""
    number: int = faiss.METRIC_L2 if options.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    return number


def selector(within: NDArray[np.bool_]) -> Any:
    """Return what tells faiss which vectors to compare."""
    return faiss.IDSelectorBitmap(np.packbits(within, bitorder="little"))


def prepared(vectors: Vectors, name: str) -> Vectors:
    """Return vectors as faiss takes them; for the cosine of length one, those without a direction as they are."""
    ready = np.ascontiguousarray(vectors, np.float32)
    if name == "cosine":
        lengths = np.linalg.norm(ready, axis=1, keepdims=True)
        ready = np.divide(ready, np.where(lengths > 0, lengths, 1), dtype=np.float32)
    return ready


def parts(vectors: Vectors) -> Iterator[Vectors]:
    """Cut vectors into as many at a time as faiss should copy at once."""
    return (vectors[start : start + _ADDED] for start in range(0, len(vectors), _ADDED))
