"""What is foreseen of chunks that are fetched one after the other, each decoded while the next one travels."""

from dataclasses import replace

import pytest

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.base import TEXT, TEXT_CHUNK, ChunkCosts, HeldChunk, Ladder, Situation

LADDER = Ladder(("large", "small"), "large")


def situation(decode: float, chunks: int = 3) -> Situation:
    """Return chunks of 100 tokens and 1,000 bytes, a second to fetch each; half of that as `small`."""
    left = [
        HeldChunk(Chunk(str(start), start, start + 100), {"large": 1_000, "small": 500})
        for start in range(0, 100 * chunks, 100)
    ]
    costs = ChunkCosts(lambda start, stop: (stop - start) / 10, lambda _, tokens: decode * tokens)
    return Situation(left, costs, throughput=1_000.0)


def test_link_is_slower() -> None:
    """Where the link is slower than decoding, its time counts, and the decoding of the last chunk."""
    assert situation(2e-3).fetch_seconds("large", LADDER) == pytest.approx(3 * 1.0 + 0.2)
    assert situation(2e-3).fetch_seconds("small", LADDER) == pytest.approx(3 * 0.5 + 0.2)


def test_decoding_is_slower() -> None:
    """Where decoding is slower, the first chunk's way counts, and all decoding."""
    assert situation(0.05).fetch_seconds("large", LADDER) == pytest.approx(1.0 + 3 * 5.0)


def test_fixed_costs() -> None:
    """Each chunk has a round trip of its own; while one is still decoded, only the next one comes."""
    now = replace(situation(0.0), round_trip=0.25)
    assert now.fetch_seconds("large", LADDER) == pytest.approx(3 * 1.25)
    assert replace(now, busy=10.0).fetch_seconds("large", LADDER) == pytest.approx(10.0 + 2 * 1.25)


def test_shared_link() -> None:
    """With others on the link it takes as many times as long."""
    assert replace(situation(0.0), transfers=4).fetch_seconds("large", LADDER) == pytest.approx(12.0)


def test_begun() -> None:
    """Of a transfer under way only what is still to come counts, without a round trip."""
    now = replace(situation(0.0), round_trip=0.25)
    assert now.fetch_seconds("small", LADDER, ("large", 100)) == pytest.approx(0.1 + 2 * 0.75)


def test_text_from_where_nothing_is_held() -> None:
    """What is not held is computed once all before it is there."""
    now = situation(0.0)
    now = replace(now, left=[*now.left[:2], HeldChunk(now.left[2].chunk, {})])
    assert now.fetch_seconds("large", LADDER) == pytest.approx(2 * 1.0 + 10.0)
    assert now.text_seconds() == pytest.approx(30.0)


def test_dead_and_unknown_links() -> None:
    """Over a dead link nothing ever comes; an unknown one counts as one of 1 Gbit/s."""
    now = situation(1e-3)
    assert replace(now, throughput=0.0).fetch_seconds("large", LADDER) == float("inf")
    assert replace(now, throughput=None).fetch_seconds("large", LADDER) == pytest.approx(0.3 + 1_000 / 125e6)


def test_computed_chunk() -> None:
    """While a chunk is computed the next one comes; from a computed rest on nothing does."""
    now = situation(1e-3)
    assert now.fetch_seconds(TEXT_CHUNK, LADDER, then="small") == pytest.approx(10.0 + 0.1 + 0.4 + 0.1)
    assert now.fetch_seconds("small", LADDER, then=TEXT) == pytest.approx(0.5 + 0.1 + 20.0)


def test_slower_link() -> None:
    """A plan can be tried on a slower link; decoding takes as long as before."""
    assert situation(2e-3).fetch_seconds("large", LADDER, slower=2.0) == pytest.approx(3 * 2.0 + 0.2)
