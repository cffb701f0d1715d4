"""K-means over vectors."""

import numpy as np
import pytest

from flightllm.errors import CancelledError
from flightllm.operators.sets.kmeans import clusters


def test_clusters_of_clear_groups() -> None:
    """Vectors around four directions fall into four clusters, again and again the same."""
    chance = np.random.default_rng(0)
    centres = np.eye(4, 16)
    truth = np.repeat(np.arange(4), 50)
    vectors = (centres[truth] + chance.normal(0, 0.05, (200, 16))).astype(np.float32)
    numbers, far = clusters(vectors, 4, lambda: False)
    assert len(set(zip(truth.tolist(), numbers.tolist(), strict=True))) == 4
    assert far.max() < 0.5
    assert np.array_equal(clusters(vectors, 4, lambda: False)[0], numbers)


def test_equal_vectors_are_one_cluster() -> None:
    """There are no more clusters than different vectors."""
    vectors = np.repeat(np.eye(2, 3, dtype=np.float32), 5, axis=0)
    numbers, _ = clusters(vectors, 8, lambda: False)
    assert sorted(set(numbers.tolist())) == [0, 1]


def test_a_cancelled_query_stops() -> None:
    """Each round polls whether the query was cancelled."""
    with pytest.raises(CancelledError):
        clusters(np.eye(3, dtype=np.float32), 2, lambda: True)
