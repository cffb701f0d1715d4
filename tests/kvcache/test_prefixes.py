"""Which chunks of a prompt are looked for and kept."""

from flightllm.kvcache.prefixes import Cutting

CUTTING = Cutting("model", chunk_tokens=10, min_tokens=4)
TOKENS = list(range(37))


def test_rest_of_a_start() -> None:
    """A start that recurs ends in a chunk as short as it is; without it only whole chunks are looked for."""
    with_start = CUTTING.prefixes(TOKENS, 25, "")
    assert [(chunk.start, chunk.stop) for chunk in with_start.full] == [(0, 10), (10, 20), (20, 30)]
    assert with_start.tail is not None
    assert (with_start.tail.start, with_start.tail.stop) == (20, 25)
    assert with_start.tail == CUTTING.recurring(TOKENS, 25, "")[-1]
    assert CUTTING.prefixes(TOKENS, 0, "").tail is None
    assert CUTTING.prefixes(TOKENS, 20, "").tail is None


def test_short_starts_are_not_kept() -> None:
    """A start that is quicker computed than loaded is not kept."""
    assert CUTTING.recurring(TOKENS, 3, "") == ()
    assert len(CUTTING.recurring(TOKENS, 4, "")) == 1


def test_leading() -> None:
    """Chunks are loaded up to the first gap, and the short one only where all before it are there and it reaches on."""
    prefixes = CUTTING.prefixes(TOKENS, 25, "")
    first, second, third = prefixes.full
    assert prefixes.tail is not None
    tail = prefixes.tail

    def leading(*held: str) -> list[int]:
        return [chunk.stop for chunk in prefixes.leading(set(held))]

    assert leading() == leading(second.key) == leading(tail.key) == []
    assert leading(first.key, third.key) == leading(first.key, tail.key) == [10]
    assert leading(first.key, second.key, tail.key) == [10, 20, 25]
    assert leading(*prefixes.keys) == [10, 20, 30]


def test_tenants_and_models_never_meet() -> None:
    """Another salt, another revision or another token before gives other keys."""
    keys = set(CUTTING.prefixes(TOKENS, 25, "").keys)
    assert keys.isdisjoint(CUTTING.prefixes(TOKENS, 25, "acme").keys)
    assert keys.isdisjoint(Cutting("other", 10, 4).prefixes(TOKENS, 25, "").keys)
    assert keys.isdisjoint(CUTTING.prefixes([99, *TOKENS[1:]], 25, "").keys)
