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
    assert all(chunk.tokens == size for chunk in chunks[:-1])
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


def test_default_size() -> None:
    """Chunks have 1,500 tokens where nobody says otherwise."""
    assert [chunk.tokens for chunk in prefix_chunks(range(4_000), "model")] == [CHUNK_TOKENS, CHUNK_TOKENS, 1_000]
