"""Read and write an engine's paged KV memory by slot, for any order of numbers in its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flightllm.errors import UnsupportedError

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_DIGIT = 128
"""Every number type represents whole numbers up to this one exactly."""


@dataclass(frozen=True, slots=True)
class PagedShape:
    """The engine's description of its memory: the number of `blocks`, and one layer's numbers per token."""

    blocks: int
    heads: int
    head_dim: int

    @property
    def token(self) -> int:
        """Return a layer's numbers for a token, keys and values together."""
        return 2 * self.heads * self.head_dim


class PagedMemory:
    """The paged tensors of all layers, in their order.

    Token `t` of a request is in slot `block × block size + t mod block size`. Each attention kernel has its own order
    of numbers in a block: heads before or after tokens, keys and values apart or side by side, keys transposed for
    vector registers. So the kernel's own function does the writing. To learn the order for reading, `_measure` writes
    consecutive numbers once and looks where they are.

    Raises:
    UnsupportedError: this kind of memory cannot be read this way; the message names the kind.
    """

    def __init__(self, caches: Mapping[str, torch.Tensor], attention: Mapping[str, Any], shape: PagedShape) -> None:
        if len({cache.data_ptr() for cache in caches.values()}) < len(caches):
            raise UnsupportedError(
                "layers of this model share their KV cache; the KV store needs a cache for each layer"
            )
        self._layers = [_Layer(name, cache, attention[name], shape) for name, cache in caches.items()]
        self.shape = shape

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return len(self._layers)

    @property
    def device(self) -> torch.device:
        """Return the device of the memory."""
        return self._layers[0].cache.device

    @property
    def dtype(self) -> torch.dtype:
        """Return the number type."""
        return self._layers[0].cache.dtype

    def slots(self, blocks: Sequence[int], block_tokens: int, start: int, stop: int) -> torch.Tensor:
        """Return the slots of the tokens `start` to `stop` of a request with these `blocks`."""
        positions = torch.arange(start, stop)
        found = torch.tensor(blocks)[positions // block_tokens] * block_tokens + positions % block_tokens
        return found.to(self.device)

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        """Return all layers' keys and values at the slots, of shape (layers, 2, tokens, heads, head_dim)."""
        return torch.stack([layer.read(slots) for layer in self._layers])

    def write(self, layer: int, slots: torch.Tensor, cache: torch.Tensor) -> None:
        """Write a layer's keys and values, of shape (2, tokens, heads, head_dim), to the slots."""
        self._layers[layer].write(slots, cache)


class _Layer:
    def __init__(self, name: str, cache: torch.Tensor, attention: Any, shape: PagedShape) -> None:
        kind = type(attention.impl).__name__
        if cache.dtype not in _DTYPES:
            raise UnsupportedError(f"a KV cache of {cache.dtype} numbers cannot be kept; set kv_cache_dtype to 'auto'")
        self.cache = cache
        self._attention = attention
        self._axis = _block_axis(cache, shape, f"{name} ({kind})")
        self._shape = shape
        block = cache.select(self._axis, 0)
        self._tokens = block.numel() // shape.token
        try:
            self._places = self._measure(f"{name} ({kind})")
        except (AttributeError, NotImplementedError) as error:
            raise UnsupportedError(
                f"the KV store does not know how the attention of {name} ({kind}) writes its KV cache"
            ) from error

    def read(self, slots: torch.Tensor) -> torch.Tensor:
        blocks, which = torch.unique_consecutive(slots // self._tokens, return_inverse=True)
        numbers = self.cache.index_select(self._axis, blocks).movedim(self._axis, 0).reshape(len(blocks), -1)
        ordered = numbers[:, self._places].transpose(0, 1).flatten(1, 2)
        return ordered.index_select(1, which * self._tokens + slots % self._tokens)

    def write(self, slots: torch.Tensor, cache: torch.Tensor) -> None:
        self._update(self.cache, slots, cache)

    def _update(self, memory: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor) -> None:
        keys, values = cache[0].contiguous(), cache[1].contiguous()
        self._attention.impl.do_kv_cache_update(self._attention, keys, values, memory, slots)

    def _measure(self, name: str) -> torch.Tensor:
        """Return the index of each number in a block, in the tensor's order: (2, tokens, heads, head_dim)."""
        size = list(self.cache.shape)
        size[self._axis] = 1
        block = torch.empty_strided(size, self.cache.stride(), dtype=self.cache.dtype, device=self.cache.device)
        numbers = torch.arange(self._tokens * self._shape.token, device=self.cache.device)
        numbers = numbers.view(2, self._tokens, self._shape.heads, self._shape.head_dim)
        slots = torch.arange(self._tokens, device=self.cache.device)
        found, weight = torch.zeros(numbers.numel(), dtype=torch.long, device=self.cache.device), 1
        while weight < numbers.numel():
            block.zero_()
            self._update(block, slots, (numbers // weight % _DIGIT).to(self.cache.dtype))
            found += weight * block.flatten().long()
            weight *= _DIGIT
        places = found.argsort()
        if not torch.equal(found[places], numbers.flatten()):
            raise UnsupportedError(
                f"the attention of {name} changes the numbers that it writes: no store can keep them"
            )
        return places.view_as(numbers)


def _block_axis(cache: torch.Tensor, shape: PagedShape, name: str) -> int:
    """Return the axis of blocks: the first, or the second after the axis of keys and values.

    A kernel can split the engine's blocks into several of its own, so the axis can have a multiple of their number.
    """
    axis = 1 if cache.ndim == 5 and cache.shape[0] == 2 and cache.shape[1] % shape.blocks == 0 else 0
    blocks = cache.shape[axis]
    if blocks % shape.blocks or cache.numel() % (blocks * shape.token):
        raise UnsupportedError(
            f"the KV cache of {name} has the shape {tuple(cache.shape)}, which does not fit {shape.blocks} blocks of"
            f" {shape.heads} heads of {shape.head_dim} numbers"
        )
    return axis
