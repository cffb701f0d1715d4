"""What every codec of KV caches offers: a tensor in, a bitstream out, and back, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

Bitstream = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class KvShape:
    """The shape of a chunk: `layers` × keys and values × `tokens` × `heads` × `head_dim`, in numbers of `dtype`."""

    layers: int
    tokens: int
    heads: int
    head_dim: int
    dtype: str
    """`float16`, `bfloat16` or `float32`."""

    @property
    def channels(self) -> int:
        """Return the numbers that a token has in a layer's keys, and again in its values."""
        return self.heads * self.head_dim

    @property
    def elements(self) -> int:
        """Return how many numbers there are."""
        return self.layers * 2 * self.tokens * self.channels


class Codec(Protocol):
    """Codes one chunk of a KV cache. Safe to call from several threads at once.

    A chunk is a tensor of shape (layers, 2, tokens, heads, head_dim): for each layer the keys, then the values.
    """

    @property
    def name(self) -> str:
        """Return what tells its bitstreams from others', level included: `raw`, `int8`, `cachegen-2`."""

    @property
    def profile_digest(self) -> bytes:
        """Return what tells the profile that bitstreams depend on from others; empty where they depend on none."""

    def encode(self, cache: torch.Tensor) -> bytes:
        """Return the bitstream of a chunk.

        Raises:
            InvalidInputError: the tensor is of another shape or type than the codec takes.
        """

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values, of shape (2, tokens, heads, head_dim), in order.

        Checksum, header and lengths are checked before the first layer comes; what was made wrong on purpose, with a
        checksum that is right, may show at a later one.

        Raises:
            BitstreamError: it is cut short, damaged, or another codec's, model's or version's.
        """


def shape_of(cache: torch.Tensor) -> KvShape:
    """Return the shape of a chunk."""
    layers, _, tokens, heads, head_dim = cache.shape
    return KvShape(layers, tokens, heads, head_dim, str(cache.dtype).removeprefix("torch."))


def decode(codec: Codec, data: Bitstream, device: str = "cpu") -> torch.Tensor:
    """Return the chunk that a bitstream holds; see `Codec.layers` for the errors."""
    import torch

    return torch.stack(list(codec.layers(data, device)))
