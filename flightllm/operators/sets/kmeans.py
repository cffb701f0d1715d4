"""K-means over vectors of length 1, with a fixed seed: equal vectors in equal order give equal clusters."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from flightllm.errors import check_cancelled

Vectors = NDArray[np.float32]
Ints = NDArray[np.int64]

_SEED: Final = 5
_ROUNDS: Final = 50


def clusters(vectors: Vectors, k: int, cancelled: Callable[[], bool]) -> tuple[Ints, NDArray[np.float64]]:
    """Return the cluster of each vector, and its squared distance to the centre.

    Clusters have the numbers from 0 on, and each has a vector. There are fewer than `k` where fewer vectors differ.
    Starts with k-means++ (Arthur and Vassilvitskii 2007), then Lloyd's iterations.

    Raises:
        CancelledError: the query was cancelled.
    """
    centres = _first_centres(vectors, k, cancelled)
    nearest, far = _nearest(vectors, centres)
    for _ in range(_ROUNDS):
        check_cancelled(cancelled)
        sums = np.zeros((len(centres), vectors.shape[1]))
        np.add.at(sums, nearest, vectors)
        sizes = np.bincount(nearest, minlength=len(centres))
        moved = sizes > 0
        centres[moved] = (sums[moved] / sizes[moved, None]).astype(np.float32)
        again, far = _nearest(vectors, centres)
        if np.array_equal(again, nearest):
            break
        nearest = again
    _, numbers = np.unique(nearest, return_inverse=True)
    return numbers.astype(np.int64), far


def _first_centres(vectors: Vectors, k: int, cancelled: Callable[[], bool]) -> Vectors:
    """Choose vectors that are far from each other, each at random by its squared distance to the chosen ones."""
    chance = np.random.default_rng(_SEED)
    chosen = [int(chance.integers(len(vectors)))]
    far = _distances(vectors, vectors[chosen[0]])
    while len(chosen) < k and far.sum() > 1e-9 * len(vectors):
        check_cancelled(cancelled)
        chosen.append(int(chance.choice(len(vectors), p=far / far.sum())))
        far = np.minimum(far, _distances(vectors, vectors[chosen[-1]]))
    return vectors[chosen].copy()


def _distances(vectors: Vectors, centre: Vectors) -> NDArray[np.float64]:
    own = np.einsum("ij,ij->i", vectors, vectors)
    found = (own - 2 * (vectors @ centre) + float(centre @ centre)).astype(np.float64)
    return np.where(found > 1e-6, found, 0.0)


def _nearest(vectors: Vectors, centres: Vectors) -> tuple[Ints, NDArray[np.float64]]:
    own = np.einsum("ij,ij->i", vectors, vectors)
    squares = np.einsum("ij,ij->i", centres, centres)
    nearest, far = np.empty(len(vectors), np.int64), np.empty(len(vectors))
    for first in range(0, len(vectors), 8_192):
        part = slice(first, first + 8_192)
        distances = squares - 2 * (vectors[part] @ centres.T)
        nearest[part] = distances.argmin(axis=1)
        far[part] = distances.min(axis=1) + own[part]
    return nearest, np.maximum(far, 0.0)
