"""Which chunks of a prompt are looked for and kept."""

from flightllm.kvcache.prefixes import Cutting, leading

CUTTING = Cutting("model", chunk_tokens=10, min_tokens=4)
TOKENS = list(range(37))


def test_whole_chunks() -> None:
    """Whole chunks are looked for, and kept as far as the start recurs."""
    chunks = CUTTING.chunks(TOKENS, "")
    assert [(chunk.start, chunk.stop) for chunk in chunks] == [(0, 10), (10, 20), (20, 30)]
    assert CUTTING.recurring(TOKENS, 25, "") == chunks[:2]
    assert CUTTING.recurring(TOKENS, 37, "") == chunks


def test_short_starts_are_not_kept() -> None:
    """A start that is quicker computed than loaded is not kept."""
    short = Cutting("model", chunk_tokens=2, min_tokens=4)
    assert short.recurring(TOKENS, 3, "") == ()
    assert len(short.recurring(TOKENS, 4, "")) == 2


def test_leading() -> None:
    """Chunks are loaded up to the first gap."""
    chunks = CUTTING.chunks(TOKENS, "")
    first, second, third = (chunk.key for chunk in chunks)
    assert leading(chunks, {second, third}) == ()
    assert leading(chunks, {first, third}) == chunks[:1]
    assert leading(chunks, {first, second, third}) == chunks


def test_tenants_and_models_never_meet() -> None:
    """Another salt, another revision or another token before gives other keys."""
    keys = {chunk.key for chunk in CUTTING.chunks(TOKENS, "")}
    for other in (
        CUTTING.chunks(TOKENS, "acme"),
        Cutting("other", 10, 4).chunks(TOKENS, ""),
        CUTTING.chunks([99, *TOKENS[1:]], ""),
    ):
        assert keys.isdisjoint(chunk.key for chunk in other)
