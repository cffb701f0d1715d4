"""Chunks of prompts, and keys that meet exactly where everything before is the same."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from flightllm.kvcache.chunks import CHUNK_TOKENS, Chunk, prefix_chunks

TOKENS = st.lists(st.integers(0, 200_000), max_size=60)


def full(chunks: list[Chunk]) -> list[Chunk]:
    """Return the full ones: of each length, the longest ones that follow one another."""
    found: list[Chunk] = []
    for chunk in sorted(chunks, key=lambda chunk: (chunk.start, -chunk.stop)):
        if chunk.start == (found[-1].stop if found else 0):
            found.append(chunk)
    return found


@given(tokens=TOKENS, size=st.integers(1, 20))
def test_small_chunks(tokens: list[int], size: int) -> None:
    """Chunks of less than 64 tokens follow one another, all of the same length, as far as whole ones go."""
    ends = [0, *range(size, len(tokens) + 1, size)]
    chunks = prefix_chunks(tokens, "model", size)
    assert [(chunk.start, chunk.stop) for chunk in chunks] == list(pairwise(ends))


@given(left=TOKENS, right=TOKENS, size=st.integers(1, 20))
def test_keys_meet_where_prefixes_do(left: list[int], right: list[int], size: int) -> None:
    """Two prompts have a chunk's key in common where they have all tokens up to its end in common, and nowhere else."""
    ours, others = prefix_chunks(left, "model", size), prefix_chunks(right, "model", size)
    for one in ours:
        for other in others:
            same = left[: one.stop] == right[: other.stop]
            assert (one.key == other.key) == same


def test_other_cuts_never_meet() -> None:
    """A key stands for the tokens from the chunk's own start on: other numbers would come otherwise."""
    tokens = range(5_000)
    for one in prefix_chunks(tokens, "model", 640):
        for other in prefix_chunks(tokens, "model", 960):
            assert (one.key == other.key) == ((one.start, one.stop) == (other.start, other.stop))


def test_models_and_tenants_apart() -> None:
    """Keys of other models, and of other tenants, are others."""
    keys = {
        prefix_chunks([1, 2, 3], revision, 3, salt=salt)[0].key
        for revision, salt in (("a", ""), ("b", ""), ("a", "anna"), ("a", "bert"))
    }
    assert len(keys) == 4


def test_growth() -> None:
    """Full chunks grow to 1,500 tokens: few for a long prompt, and little lost where prompts part."""
    sizes = [chunk.tokens for chunk in full(prefix_chunks(range(20_000), "model"))]
    assert sizes[:3] == [256, 128, 128]
    assert len([size for size in sizes if size == CHUNK_TOKENS]) > 5
    assert len(sizes) < 30


def test_where_prompts_part() -> None:
    """Of a start kept for a longer prompt a fifth is lost at most from 512 tokens on, and 255 tokens before."""
    ends = [0, *(chunk.stop for chunk in full(prefix_chunks(range(20_000), "model")))]
    for common in range(1, 19_000):
        lost = common - max(end for end in ends if end <= common)
        assert lost <= (common / 5 if common >= 512 else 255)


def test_same_chunks_of_any_start() -> None:
    """The chunks of a prompt are those of a longer one that end within it."""
    whole = prefix_chunks(range(12_000), "model")
    assert [chunk.stop for chunk in whole] == sorted({chunk.stop for chunk in whole})
    for length in range(0, 12_000, 331):
        assert prefix_chunks(range(length), "model") == [chunk for chunk in whole if chunk.stop <= length]
