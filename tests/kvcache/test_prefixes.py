"""Which chunks of a prompt are looked for and kept."""

import random
from itertools import pairwise

from flightllm.kvcache.chunks import CHUNK_TOKENS
from flightllm.kvcache.options import KvOptions
from flightllm.kvcache.prefixes import Cutting, leading

CUTTING = Cutting("model", chunk_tokens=10, min_tokens=4)
TOKENS = list(range(37))


def test_whole_chunks() -> None:
    """Whole chunks are looked for, and kept as far as the start recurs."""
    chunks = CUTTING.chunks(TOKENS, "")
    assert [(chunk.start, chunk.stop) for chunk in chunks] == [(0, 10), (10, 20), (20, 30)]
    assert CUTTING.worth(chunks, 25) == chunks[:2]
    assert CUTTING.worth(chunks, 37) == chunks


def test_short_starts_are_not_kept() -> None:
    """A start that is quicker computed than loaded is not kept."""
    short = Cutting("model", chunk_tokens=2, min_tokens=4)
    chunks = short.chunks(TOKENS, "")
    assert short.worth(chunks, 3) == ()
    assert len(short.worth(chunks, 4)) == 2


def test_a_long_start_finds_room() -> None:
    """All chunks of a long start that is computed at once may wait to be saved."""
    long = Cutting("model", CHUNK_TOKENS, min_tokens=64)
    chunks = long.worth(long.chunks(range(24_000), ""), 24_000)
    assert sum(chunk.tokens for chunk in chunks[:-1]) < KvOptions("grpc://here:1").save_tokens


def test_leading() -> None:
    """Chunks are loaded up to the first gap."""
    chunks = CUTTING.chunks(TOKENS, "")
    first, second, third = (chunk.key for chunk in chunks)
    assert leading(chunks, {second, third}) == ()
    assert leading(chunks, {first, third}) == chunks[:1]
    assert leading(chunks, {first, second, third}) == chunks
    assert leading(chunks, {second, third}, have=10) == chunks[1:]
    assert leading(chunks, {second, third}, have=15) == chunks[1:]
    assert leading(chunks, {first, second}, have=20) == ()


def test_any_start() -> None:
    """Of any start that recurs all but 63 tokens are kept at most, in few chunks, and found by every prompt with it."""
    cutting, tokens = Cutting("model", 1_500, 64), list(range(12_000))
    chunks = cutting.chunks(tokens, "")
    for recurring in range(64, 12_000, 97):
        kept = cutting.worth(chunks, recurring)
        assert kept[0].start == 0
        assert recurring - 64 < kept[-1].stop <= recurring
        assert all(before.stop == after.start for before, after in pairwise(kept))
        assert len(kept) < 40
        longer = cutting.chunks([*tokens[:recurring], *range(50_000, 52_000)], "")
        assert leading(longer, {chunk.key for chunk in kept}) == kept


def test_as_far_as_can_be() -> None:
    """Whatever is held, no other way through it reaches farther."""
    chunks = Cutting("model", 1_500, 64).chunks(range(7_000), "")
    drawn = random.Random(0)  # noqa: S311
    for _ in range(200):
        held = {chunk.key for chunk in chunks if drawn.random() < 0.8}
        have = drawn.choice([0, 0, drawn.randrange(7_000)])
        reached = {have}
        for chunk in chunks:
            follows = chunk.start in reached or chunk.start <= have < chunk.stop
            if follows and chunk.key in held:
                reached.add(chunk.stop)
        found = leading(chunks, held, have)
        assert (found[-1].stop if found else have) == max(reached)


def test_tenants_and_models_never_meet() -> None:
    """Another salt, another revision or another token before gives other keys."""
    keys = {chunk.key for chunk in CUTTING.chunks(TOKENS, "")}
    for other in (
        CUTTING.chunks(TOKENS, "acme"),
        Cutting("other", 10, 4).chunks(TOKENS, ""),
        CUTTING.chunks([99, *TOKENS[1:]], ""),
    ):
        assert keys.isdisjoint(chunk.key for chunk in other)
