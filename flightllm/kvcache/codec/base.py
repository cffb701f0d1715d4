"""The interface of KV cache codecs: from a tensor to a bitstream, and back layer by layer."""

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
        """Return the numbers per token in a layer's keys; its values have as many."""
        return self.heads * self.head_dim

    @property
    def elements(self) -> int:
        """Return the number of all numbers in the chunk."""
        return self.layers * 2 * self.tokens * self.channels


class Codec(Protocol):
    """A codec for chunks of a KV cache. Thread-safe.

    A chunk is a tensor of shape (layers, 2, tokens, heads, head_dim): for each layer the keys, then the values.
    """

    @property
    def name(self) -> str:
        """Return the name that identifies the codec's bitstreams, level included: `raw`, `int8`, `cachegen-2`."""

    @property
    def profile_digest(self) -> bytes:
        """Return the digest of the profile that bitstreams depend on; empty if they depend on no profile."""

    def encode(self, cache: torch.Tensor) -> bytes:
        """Return the bitstream of a chunk.

        Raises:
            InvalidInputError: the codec does not accept the tensor's shape or type.
        """

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values, of shape (2, tokens, heads, head_dim), in order.

        Checksum, header and lengths are checked before the first layer. A bitstream that was forged with a valid
        checksum can fail at a later layer.

        Raises:
        BitstreamError: the bitstream is cut short or damaged, or belongs to another codec, model or version.
        """


def shape_of(cache: torch.Tensor) -> KvShape:
    """Return the shape of a chunk."""
    layers, _, tokens, heads, head_dim = cache.shape
    return KvShape(layers, tokens, heads, head_dim, str(cache.dtype).removeprefix("torch."))


def decode(codec: Codec, data: Bitstream, device: str = "cpu") -> torch.Tensor:
    """Return the chunk in a bitstream; see `Codec.layers` for the errors."""
    import torch

    from flightllm.kvcache.codec.workers import in_parallel

    layers = list(codec.layers(data, device))
    return next(in_parallel([lambda: torch.stack(layers)]))
