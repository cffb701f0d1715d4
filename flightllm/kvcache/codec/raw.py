"""Store a chunk's numbers unchanged."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from flightllm.kvcache.codec.base import Bitstream, shape_of
from flightllm.kvcache.codec.container import Header, misses, seal, unseal


class RawCodec:
    """The lossless codec: all bits unchanged. It is the largest, and the reference for the others."""

    name = "raw"
    profile_digest = b""

    def encode(self, cache: torch.Tensor) -> bytes:
        """Return the bitstream of a chunk; see `Codec.encode`."""
        numbers = cache.detach().cpu().contiguous().flatten().view(torch.uint8)
        return seal(Header(self.name, shape_of(cache)), numbers.numpy().data)

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values; see `Codec.layers`."""
        header, payload = unseal(data, self.name)
        shape = header.shape
        dtype: torch.dtype = getattr(torch, shape.dtype)
        layer = replace(shape, layers=1).elements * dtype.itemsize
        if error := misses(payload, shape.layers * layer):
            raise error
        for start in range(0, len(payload), layer):
            part = torch.frombuffer(bytearray(payload[start : start + layer]), dtype=dtype)
            yield part.view(2, shape.tokens, shape.heads, shape.head_dim).to(device)
