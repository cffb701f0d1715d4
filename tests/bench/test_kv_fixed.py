"""`fixed`: the same whatever the link does."""

import pytest

from bench.kv_fixed import Fixed
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.stream.base import TEXT, ChunkCosts, HeldChunk, Ladder, Situation

LADDER = Ladder(("int8", "small"), "small")


@pytest.mark.parametrize(
    ("codec", "sizes", "chosen"),
    [
        ("int8", {"int8": 10, "small": 5}, "int8"),
        ("small", {"int8": 10}, "int8"),
        ("int8", {}, TEXT),
        (TEXT, {"int8": 10}, TEXT),
    ],
)
@pytest.mark.parametrize("throughput", [None, 0.0, 1e9])
def test_fixed(codec: str, sizes: dict[str, int], chosen: str, throughput: float | None) -> None:
    """The codec is taken where it is held, else the nearest, else text; a transfer goes on at any rate."""
    costs = ChunkCosts(lambda start, stop: 1e-6 * (stop - start))
    now = Situation([HeldChunk(Chunk("a", 0, 10), sizes)], costs, throughput=throughput, slo=1.0)
    assert Fixed(LADDER, codec).choose(now) == chosen
    assert Fixed(LADDER, codec).keeps(now, codec, 10)
