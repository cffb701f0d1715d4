"""Paged memory is read as it was written, in whatever order a kernel keeps it."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="the extra 'local' is not installed")

import torch

from flightllm.errors import UnsupportedError
from flightllm.kvcache.connector.paged import PagedMemory
from tests.kvcache.connector.memories import (
    BLOCKS,
    HEAD_DIM,
    HEADS,
    KINDS,
    SHAPE,
    TOKENS,
    attention,
    heads_first,
    memory,
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_written_and_read(kind: str, dtype: torch.dtype) -> None:
    """Tokens across scattered blocks come back bit by bit, and no other slot changes."""
    paged = memory(kind, dtype=dtype)
    slots = paged.slots([4, 1, 5], TOKENS, 2, 11)
    assert slots.tolist() == [18, 19, 4, 5, 6, 7, 20, 21, 22]
    given = torch.randn(2, 2, len(slots), HEADS, HEAD_DIM).to(dtype)
    for layer in range(2):
        paged.write(layer, slots, given[layer])
    assert torch.equal(paged.read(slots), given)
    others = torch.tensor([slot for slot in range(BLOCKS * TOKENS) if slot not in slots.tolist()])
    assert not paged.read(others).any()
    assert torch.equal(paged.read(slots[3:4]), given[:, :, 3:4])


def test_kernel_blocks_smaller_than_the_engines() -> None:
    """A kernel that cuts the engine's blocks in two has the same slots."""
    cache = torch.zeros(2 * BLOCKS, HEADS, TOKENS, 2 * HEAD_DIM)
    paged = PagedMemory({"one": cache}, {"one": attention(heads_first)}, SHAPE)
    slots = paged.slots([3, 1], 2 * TOKENS, 5, 10)
    given = torch.randn(2, len(slots), HEADS, HEAD_DIM)
    paged.write(0, slots, given)
    assert torch.equal(paged.read(slots)[0], given)
    assert cache[7, :, 1:].any()


def test_memory_that_is_refused() -> None:
    """What cannot be read is refused by name: 8-bit numbers, strange shapes, lossy kernels, shared layers."""
    good = torch.zeros(BLOCKS, HEADS, TOKENS, 2 * HEAD_DIM)
    kernel = attention(heads_first)
    lossy = attention(lambda key, value, cache, slots: heads_first(key / 2, value, cache, slots))
    silent = SimpleNamespace(impl=SimpleNamespace())
    for cache, layer, told in (
        (good.to(torch.float8_e4m3fn), kernel, "float8"),
        (torch.zeros(BLOCKS, 7), kernel, "shape"),
        (torch.zeros(5, HEADS, TOKENS, 2 * HEAD_DIM), kernel, "does not fit 6 blocks"),
        (good, lossy, "changes the numbers"),
        (good, silent, "does not know how the attention of one"),
    ):
        with pytest.raises(UnsupportedError, match=told):
            PagedMemory({"one": cache}, {"one": layer}, SHAPE)
    with pytest.raises(UnsupportedError, match="share"):
        PagedMemory({"one": good, "two": good}, dict.fromkeys(("one", "two"), kernel), SHAPE)
