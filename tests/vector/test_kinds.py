"""Every kind of index: what it finds against a comparison with all vectors."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from flightllm.errors import InvalidInputError
from flightllm.vector.kinds import load_kind
from flightllm.vector.kinds.base import Neighbors, Vectors, prepared
from flightllm.vector.options import KINDS, METRICS, IndexOptions
from tests.packages import needs

pytestmark = needs("faiss", extra="vector")

SIZE = 24


def clustered(count: int, seed: int = 0) -> Vectors:
    """Return vectors around a few centers."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(20, SIZE))
    drawn = centers[rng.integers(20, size=count)] + 0.4 * rng.normal(size=(count, SIZE))
    return np.asarray(drawn, np.float32)


def closeness(queries: Vectors, vectors: Vectors, metric: str) -> NDArray[np.float64]:
    """Return the score of each query with each vector, computed plainly."""
    a, b = queries.astype(np.float64), vectors.astype(np.float64)
    if metric == "l2":
        return np.asarray(-np.sqrt(np.square(a[:, None] - b).sum(-1)))
    if metric == "cosine":
        a, b = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (a, b))
    return np.asarray(a @ b.T)


def build(name: str, metric: str, vectors: Vectors) -> Neighbors:
    """Build an index of a kind with its defaults."""
    return load_kind(name).build(prepared(vectors, metric), IndexOptions(type=name, metric=metric))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", KINDS)
def test_finds_the_nearest(name: str, metric: str) -> None:
    """Nearly all true neighbors are found, with their true scores, the closest first."""
    vectors, queries = clustered(3_000), clustered(50, 1)
    scores, ids = build(name, metric, vectors).search(queries, 10)
    true = closeness(queries, vectors, metric)
    best = np.argsort(-true, axis=1)[:, :10]
    recall = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(ids, best, strict=True)])
    assert recall >= (1.0 if name == "flat" else 0.95)
    assert np.allclose(scores, np.take_along_axis(true, ids, 1), atol=2e-3)
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("share", [0.002, 0.1, 0.9])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", KINDS)
def test_filtered_search_is_exact(name: str, metric: str, share: float) -> None:
    """Among some of the vectors the very nearest are found."""
    vectors, queries = clustered(2_000), clustered(20, 1)
    within = np.random.default_rng(3).random(2_000) < share
    scores, ids = build(name, metric, vectors).search(queries, 5, within)
    true = np.where(within, closeness(queries, vectors, metric), -np.inf)
    count = min(5, int(within.sum()))
    assert ids.shape == (20, count)
    assert within[ids].all()
    assert np.allclose(scores, -np.sort(-true, axis=1)[:, :count], atol=2e-3)


@pytest.mark.parametrize("name", KINDS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    """An index read again finds the same; vectors added to it are found too."""
    vectors = clustered(1_500)
    built = build(name, "cosine", vectors[:1_400])
    built.write(tmp_path / "index")
    read = load_kind(name).read(tmp_path / "index", built.options)
    queries = clustered(10, 1)
    assert np.array_equal(built.search(queries, 7)[1], read.search(queries, 7)[1])
    assert (read.count, read.dimensions, read.depth) == (1_400, SIZE, built.depth)
    read.append(prepared(vectors[1_400:], "cosine"))
    scores, ids = read.search(vectors[1_400:], 1)
    assert (ids[:, 0] >= 1_400).mean() > 0.95
    assert scores[:, 0].max() == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", KINDS)
def test_more_than_there_is(name: str) -> None:
    """All vectors are as many as a search can find; none are found in none."""
    index = build(name, "ip", clustered(300))
    scores, ids = index.search(clustered(2, 1), 1_000)
    assert ids.shape == scores.shape == (2, 300)
    assert index.search(clustered(0), 3)[1].shape == (0, 0)
    assert index.search(clustered(2), 3, np.zeros(300, np.bool_))[1].shape == (2, 0)


def test_depth_as_wanted() -> None:
    """Lists and probes are those asked for."""
    index = load_kind("ivf").build(prepared(clustered(2_000), "cosine"), IndexOptions(type="ivf", lists=16, probes=3))
    assert (index.index.nlist, index.depth) == (16, 3)


def test_damaged_file(tmp_path: Path) -> None:
    """A file that is no index is an error of ours."""
    (tmp_path / "index").write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        load_kind("flat").read(tmp_path / "index", IndexOptions())


@pytest.mark.parametrize(("count", "codes", "said"), [(100, 0, "use type 'flat'"), (400, 7, "divisor")])
def test_what_cannot_be_compressed(count: int, codes: int, said: str) -> None:
    """Too few vectors, or a length that is no multiple, say what to do."""
    with pytest.raises(InvalidInputError, match=said):
        load_kind("ivfpq").build(clustered(count), IndexOptions(type="ivfpq", codes=codes))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"typ": "ivf"}, "did you mean type"),
        ({"type": "tree"}, "flat, ivf"),
        ({"lists": "many"}, "whole number"),
        ({"neighbors": "1"}, "from 2 to 512"),
    ],
)
def test_wrong_options(given: dict[str, str], said: str) -> None:
    """What is wrong and what there is instead."""
    with pytest.raises(InvalidInputError, match=said):
        IndexOptions.read(given)
