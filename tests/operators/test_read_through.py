"""Predicted answers over kept ones: what is known is found, and nothing of it leaves a trace."""

from collections.abc import Iterator

import pytest

from flightllm.operators.read_through import ReadThroughCache
from flightllm.operators.temporary_answers import TemporaryAnswers

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def cache() -> Iterator[TemporaryAnswers]:
    """Return a cache that knows one answer on disk and one that waits."""
    cache = TemporaryAnswers()
    cache.put(A, "kept")
    cache.flush()
    cache.put(B, "waiting")
    yield cache
    cache.close()


def test_no_trace(cache: TemporaryAnswers) -> None:
    """Known answers are found, own ones too; the cache has and has counted no more than before."""
    overlay = ReadThroughCache(cache)
    overlay.put(C, "predicted")
    overlay.flush()
    assert overlay.get([A, B, C, b"d"]) == {A: "kept", B: "waiting", C: "predicted"}
    stats = cache.stats()
    assert (stats.entries, stats.hits, stats.misses) == (2, 0, 0)


def test_nothing_known() -> None:
    """Where a session reads no answers, only predicted ones are found."""
    overlay = ReadThroughCache(None)
    overlay.put(A, "predicted")
    assert overlay.get([A, B]) == {A: "predicted"}
