"""Fast: uniform bins around each channel's mean, compressed by zstd, for links that outrun CacheGen's decoder.

The keys (or values) of a layer are numbers of 8 bits, in the order of the tokens. A number counts steps from the
channel's mean. Each ten tokens have their own step: a multiple of the root mean square around the means, or more, so
that the largest difference fits. Steps grow with depth as CacheGen's bins do; the error is that of `cachegen-2`.

A payload has for each layer: the means, the steps and the lengths of the two frames of zstd, then the frames. Each has
those of the keys, then those of the values. There is no profile.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.base import Bitstream, KvShape, shape_of
from flightllm.kvcache.codec.checks import codable
from flightllm.kvcache.codec.container import Header, seal, unseal
from flightllm.kvcache.codec.levels import DEFAULT_LEVEL, FAST, GROUP_TOKENS, Bins
from flightllm.kvcache.codec.quantise import SCALE_DTYPE
from flightllm.kvcache.codec.restore import restore
from flightllm.kvcache.codec.workers import in_parallel

_WIDTH: Final = 0.8
"""The factor of CacheGen's bins at which the demo model's keys and values have the error of `cachegen-2`."""
_LARGEST: Final = 127
_ZSTD_LEVEL: Final = 1  # higher levels find matches, which make such numbers larger, and slower to decompress
_TINY = torch.finfo(torch.float32).tiny


class FastCodec:
    """The codec for speed: several times as fast to decode as CacheGen's levels, and somewhat larger."""

    name = FAST
    profile_digest = b""

    def __init__(self) -> None:
        restore(  # numba compiles it, or loads it, before the first chunk
            np.zeros((1, 1), np.int8), np.ones(1, np.float32), np.ones(1, np.float32), 1, torch.empty(1, 1).half()
        )

    def encode(self, cache: torch.Tensor) -> bytes:
        """Return the bitstream of a chunk; see `Codec.encode`."""
        shape = shape_of(cache)
        widths = Bins().widths(shape.layers, DEFAULT_LEVEL)
        layers = zip(cache.detach().cpu(), widths, strict=True)
        coded = in_parallel([partial(_encode, layer, _WIDTH * width) for layer, width in layers])
        return seal(Header(self.name, shape), b"".join(coded))

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values; see `Codec.layers`."""
        header, payload = unseal(data, self.name)
        parts = _split(payload, header.shape)
        for layer in in_parallel([partial(_decode, part, header.shape) for part in parts]):
            yield layer.to(device)


def _encode(layer: torch.Tensor, width: float) -> bytes:
    """Return one coded layer."""
    numbers = codable(layer).flatten(2).float()
    tokens, channels = numbers.shape[1:]
    means = numbers.mean(1, keepdim=True).to(SCALE_DTYPE)
    missing = -tokens % GROUP_TOKENS
    around = torch.nn.functional.pad(numbers - means.float(), (0, 0, 0, missing)).view(2, -1, GROUP_TOKENS * channels)
    counts = torch.full((around.shape[1],), float(GROUP_TOKENS * channels))
    counts[-1] -= missing * channels
    usual = (around.square().sum(2) / counts).sqrt()
    lowest, highest = around.aminmax(dim=2)
    steps = torch.maximum(width * usual, torch.maximum(-lowest, highest) / _LARGEST).to(SCALE_DTYPE)
    scaled = around.div_(steps.float().clamp(min=_TINY)[..., None]).round_().clamp_(-_LARGEST, _LARGEST)
    whole = scaled.to(torch.int8).view(2, -1, channels)[:, :tokens].contiguous().numpy()
    frames = [pa.Codec("zstd", _ZSTD_LEVEL).compress(kind, asbytes=True) for kind in whole]
    lengths = np.array([len(frame) for frame in frames], "<u4")
    scales = [one.contiguous().flatten().view(torch.uint8).numpy().tobytes() for one in (means, steps)]
    return b"".join([*scales, lengths.tobytes(), *frames])


@dataclass(frozen=True, slots=True)
class _Part:
    """A coded layer: its means (2 × channels), steps (2 × groups) and frames."""

    means: NDArray[np.float32]
    steps: NDArray[np.float32]
    frames: list[memoryview]


def _decode(part: _Part, shape: KvShape) -> torch.Tensor:
    """Return a layer's keys and values."""
    out = torch.empty(2, shape.tokens, shape.channels, dtype=getattr(torch, shape.dtype))
    for kind, frame in enumerate(part.frames):
        try:
            whole = pa.Codec("zstd").decompress(frame, shape.tokens * shape.channels)
        except OSError as error:
            raise BitstreamError("the numbers of this KV chunk are damaged: zstd cannot decompress them") from error
        numbers = np.frombuffer(whole, np.int8).reshape(shape.tokens, shape.channels)
        restore(numbers, part.steps[kind], part.means[kind], GROUP_TOKENS, out[kind])
    return out.view(2, shape.tokens, shape.heads, shape.head_dim)


def _split(payload: memoryview, shape: KvShape) -> list[_Part]:
    """Split a payload into layers, and check that all are complete."""
    groups, place = -(-shape.tokens // GROUP_TOKENS), 0

    def take(size: int) -> memoryview:
        nonlocal place
        if size > len(payload) - place:
            raise BitstreamError("the numbers of this KV chunk are longer than the chunk")
        place += size
        return payload[place - size : place]

    def take_scales(count: int) -> NDArray[np.float32]:
        scales = torch.frombuffer(bytearray(take(2 * count * SCALE_DTYPE.itemsize)), dtype=SCALE_DTYPE)
        if not bool(torch.isfinite(scales).all()):
            raise BitstreamError("a scale of this KV chunk is not a finite number")
        return scales.float().view(2, count).numpy()

    parts = []
    for _ in range(shape.layers):
        means, steps = take_scales(shape.channels), take_scales(groups)
        lengths = np.frombuffer(take(8), "<u4")
        parts.append(_Part(means, steps, [take(int(length)) for length in lengths]))
    if place != len(payload):
        raise BitstreamError("this KV chunk is longer than its numbers")
    return parts
