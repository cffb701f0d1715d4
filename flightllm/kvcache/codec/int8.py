"""Code a chunk as 8-bit numbers, each token's vector scaled by its largest: the baseline for CacheGen."""

from collections.abc import Iterator

import torch

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.base import Bitstream, shape_of
from flightllm.kvcache.codec.checks import codable, narrowed
from flightllm.kvcache.codec.container import Header, misses, seal, unseal

_LARGEST = 127
_SCALE = torch.bfloat16  # two bytes with the range of float32


class Int8Codec:
    """Uniform quantisation, vector by vector (a token's keys or values in one layer)."""

    name = "int8"
    profile_digest = b""

    def encode(self, cache: torch.Tensor) -> bytes:
        """Return the bitstream of a chunk; see `Codec.encode`."""
        shape = shape_of(cache)
        parts = []
        for layer in cache.detach():
            vectors = codable(layer).flatten(2).float()
            scales = (vectors.abs().amax(2, keepdim=True) / _LARGEST).to(_SCALE)
            quantised = (vectors / scales.float().clamp(min=torch.finfo(_SCALE).tiny)).round()
            parts += [_bytes(scales), _bytes(quantised.clamp(-_LARGEST, _LARGEST).to(torch.int8))]
        return seal(Header(self.name, shape), b"".join(parts))

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values; see `Codec.layers`."""
        header, payload = unseal(data, self.name)
        shape = header.shape
        vectors = 2 * shape.tokens
        scale_bytes, layer = vectors * _SCALE.itemsize, vectors * (_SCALE.itemsize + shape.channels)
        if error := misses(payload, shape.layers * layer):
            raise error
        for start in range(0, len(payload), layer):
            part = torch.frombuffer(bytearray(payload[start : start + layer]), dtype=torch.uint8).to(device)
            scales = part[:scale_bytes].view(_SCALE).view(vectors, 1)
            if not bool(torch.isfinite(scales).all()):
                raise BitstreamError("a scale of this KV chunk is not a finite number")
            numbers = part[scale_bytes:].view(torch.int8).view(vectors, shape.channels)
            yield narrowed(numbers.float() * scales.float(), shape.dtype).view(
                2, shape.tokens, shape.heads, shape.head_dim
            )


def _bytes(numbers: torch.Tensor) -> bytes:
    return numbers.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
