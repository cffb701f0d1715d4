"""Paged memories of attention kernels that order the numbers of a block in their own ways."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from flightllm.kvcache.connector.paged import PagedMemory, PagedShape

BLOCKS, TOKENS, HEADS, HEAD_DIM = 6, 4, 3, 8
SHAPE = PagedShape(BLOCKS, HEADS, HEAD_DIM)
Update = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]


def heads_first(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
    """Write (blocks, heads, tokens, keys then values)."""
    cache[slots // TOKENS, :, slots % TOKENS] = torch.cat((key, value), -1)


def tokens_first(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
    """Write (blocks, keys and values, tokens, heads, head_dim)."""
    cache[slots // TOKENS, 0, slots % TOKENS] = key
    cache[slots // TOKENS, 1, slots % TOKENS] = value


def keys_and_values_first(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
    """Write (keys and values, blocks, tokens, heads, head_dim)."""
    cache[0, slots // TOKENS, slots % TOKENS] = key
    cache[1, slots // TOKENS, slots % TOKENS] = value


def transposed_keys(key: torch.Tensor, value: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor) -> None:
    """Write (blocks, heads, tokens × 2, head_dim) of which the first half is keys, numbers before tokens."""
    halves = cache.view(len(cache), HEADS, 2, TOKENS * HEAD_DIM)
    halves[:, :, 0].view(-1, HEADS, HEAD_DIM, TOKENS)[slots // TOKENS, :, :, slots % TOKENS] = key
    halves[:, :, 1].view(-1, HEADS, TOKENS, HEAD_DIM)[slots // TOKENS, :, slots % TOKENS] = value


KINDS: Mapping[str, tuple[Update, tuple[int, ...]]] = {
    "heads first": (heads_first, (BLOCKS, HEADS, TOKENS, 2 * HEAD_DIM)),
    "tokens first": (tokens_first, (BLOCKS, 2, TOKENS, HEADS, HEAD_DIM)),
    "keys and values first": (keys_and_values_first, (2, BLOCKS, TOKENS, HEADS, HEAD_DIM)),
    "transposed keys": (transposed_keys, (BLOCKS, HEADS, TOKENS * 2, HEAD_DIM)),
}


def attention(update: Update) -> Any:
    """Return a layer whose kernel writes so."""
    kernel = SimpleNamespace(do_kv_cache_update=lambda _, key, value, cache, slots: update(key, value, cache, slots))
    return SimpleNamespace(impl=kernel)


def memory(kind: str, layers: int = 2, dtype: torch.dtype = torch.float32) -> PagedMemory:
    """Return an empty memory of a kind."""
    update, shape = KINDS[kind]
    caches = {f"layer{number}": torch.zeros(shape, dtype=dtype) for number in range(layers)}
    return PagedMemory(caches, dict.fromkeys(caches, attention(update)), SHAPE)
