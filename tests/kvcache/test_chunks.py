"""Chunks of prompts, and keys that meet exactly where everything before is the same."""

from hypothesis import given
from hypothesis import strategies as st

from flightllm.kvcache.chunks import CHUNK_TOKENS, prefix_chunks

TOKENS = st.lists(st.integers(0, 200_000), max_size=60)


@given(tokens=TOKENS, size=st.integers(1, 20))
def test_cover(tokens: list[int], size: int) -> None:
    """Chunks follow one another from the first token to the last, all but the last one of the same length."""
    chunks = prefix_chunks(tokens, "model", size)
    assert [token for chunk in chunks for token in tokens[chunk.start : chunk.stop]] == tokens
    assert all(chunk.tokens == size and chunk.whole for chunk in chunks[:-1])
    assert all(0 < chunk.tokens <= size for chunk in chunks)


@given(left=TOKENS, right=TOKENS, size=st.integers(1, 20))
def test_keys_meet_where_prefixes_do(left: list[int], right: list[int], size: int) -> None:
    """Two prompts have a chunk's key in common where they have all tokens up to its end in common, and nowhere else."""
    ours, others = prefix_chunks(left, "model", size), prefix_chunks(right, "model", size)
    for one in ours:
        for other in others:
            same = left[: one.stop] == right[: other.stop]
            assert (one.key == other.key) == same


def test_models_and_tenants_apart() -> None:
    """Keys of other models, and of other tenants, are others."""
    keys = {
        prefix_chunks([1, 2, 3], revision, salt=salt)[0].key
        for revision, salt in (("a", ""), ("b", ""), ("a", "anna"), ("a", "bert"))
    }
    assert len(keys) == 4


def test_growth() -> None:
    """Chunks grow from 64 tokens to 1,500: few for a long prompt, and little lost where prompts part."""
    sizes = [chunk.tokens for chunk in prefix_chunks(range(20_000), "model")]
    assert sizes[:8] == [64] * 8
    assert sizes[:-1] == sorted(sizes[:-1])
    assert sizes[-2] == CHUNK_TOKENS
    assert len(sizes) < 40
    ends = [chunk.stop for chunk in prefix_chunks(range(20_000), "model")]
    for shared in range(1, 20_000, 37):
        common = max((end for end in ends if end <= shared), default=0)
        assert shared - common <= max(63, shared / 5, 1)


def test_whole() -> None:
    """The last chunk of a prompt is whole where it ends where that of a longer prompt would."""
    assert [chunk.whole for chunk in prefix_chunks(range(128), "model")] == [True, True]
    assert [chunk.whole for chunk in prefix_chunks(range(129), "model")] == [True, True, False]
    assert prefix_chunks(range(129), "model")[:2] == prefix_chunks(range(128), "model")
