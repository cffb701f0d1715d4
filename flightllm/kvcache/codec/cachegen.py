"""CacheGen: quantised differences to anchor tokens, entropy-coded with the model's own distributions.

A payload has for each layer: the scales of its anchors and of its groups (keys, then values), the lengths of the
layer's streams in words, and the streams. A stream has the numbers of 32 channels of the keys or values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.base import Bitstream, KvShape, shape_of
from flightllm.kvcache.codec.checks import codable, narrowed
from flightllm.kvcache.codec.container import Header, seal, unseal
from flightllm.kvcache.codec.levels import DEFAULT_LEVEL, GROUP_TOKENS, level_name
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.codec.quantise import SCALE_DTYPE, Quantised, dequantise, quantise
from flightllm.kvcache.codec.rans import SYMBOLS, Order, decode_stream, encode_stream, warm_up
from flightllm.kvcache.codec.rans_triton import can_decode, decode_streams, joined, starts_of
from flightllm.kvcache.codec.workers import in_parallel

STREAM_CHANNELS: Final = 32
_RESTORED_AT_ONCE: Final = 1 << 25
"""Numbers that an accelerator restores at once: it needs about 16 bytes for each."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of a layer in the payload, for one shape of chunk."""

    shape: KvShape

    @property
    def groups(self) -> int:
        return -(-self.shape.tokens // GROUP_TOKENS)

    @property
    def scale_bytes(self) -> int:
        """Return the bytes of the scales of anchors and groups, for keys and values."""
        return 2 * 2 * self.groups * SCALE_DTYPE.itemsize

    @property
    def streams(self) -> list[tuple[int, slice]]:
        """Return for each stream its kind (0: keys, 1: values) and its channels."""
        channels = self.shape.channels
        starts = range(0, channels, STREAM_CHANNELS)
        return [(kind, slice(start, min(start + STREAM_CHANNELS, channels))) for kind in range(2) for start in starts]

    @property
    def places(self) -> list[slice]:
        """Return each stream's channels, counted over the keys and values of all layers."""
        vectors = [
            ((2 * layer + kind) * self.shape.channels, channels)
            for layer in range(self.shape.layers)
            for kind, channels in self.streams
        ]
        return [slice(start + channels.start, start + channels.stop) for start, channels in vectors]

    @property
    def order(self) -> Order:
        """Return the order in which tokens are coded."""
        tokens = np.arange(self.shape.tokens)
        return Order(np.argsort(tokens % GROUP_TOKENS > 0, kind="stable"), self.groups)


class CacheGenCodec:
    """The codec of one level with one model's profile."""

    def __init__(self, profile: Profile, level: int = DEFAULT_LEVEL) -> None:
        self._profile = profile
        self._level = level
        self._widths = profile.bins.widths(profile.layers, level)
        self._on_devices: dict[str, torch.Tensor] = {}
        warm_up()

    @property
    def name(self) -> str:
        """Return `cachegen-` and the level."""
        return level_name(self._level)

    @property
    def profile_digest(self) -> bytes:
        """Return the profile's digest."""
        return self._profile.digest

    def encode(self, cache: torch.Tensor) -> bytes:
        """Return the bitstream of a chunk; see `Codec.encode`."""
        layout = self._layout(shape_of(cache))
        layers = enumerate(cache.detach().cpu())
        coded = in_parallel([partial(self._encode_layer, *layer, layout) for layer in layers])
        return seal(Header(self.name, layout.shape, self.profile_digest), b"".join(coded))

    def layers(self, data: Bitstream, device: str = "cpu") -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values; see `Codec.layers`."""
        header, payload = unseal(data, self.name, self.profile_digest)
        layout = self._layout(header.shape)
        parts = _split(payload, layout)
        if can_decode(device):
            yield from self._on(device, parts, layout)
            return
        for layer in self._on_cpu(parts, layout):
            yield layer.to(device)

    def _on_cpu(self, parts: Sequence["_Part"], layout: _Layout) -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values, decoded by several threads."""
        return in_parallel([partial(self._decode_layer, *part, layout) for part in enumerate(parts)])

    def _on(self, device: str, parts: Sequence["_Part"], layout: _Layout) -> Iterator[torch.Tensor]:
        """Yield each layer's keys and values, decoded by the accelerator in one launch.

        The layers are restored together, as many as fit into the memory for that.
        """
        shape, order = layout.shape, layout.order
        words = [stream for part in parts for stream in part.streams]
        numbers = decode_streams(joined(words, layout.places, shape.tokens), self._starts(device), order)
        numbers = numbers.view(len(parts), 2, shape.channels, shape.tokens)
        scales = torch.stack([part.scales for part in parts]).to(device)
        at_once = max(1, _RESTORED_AT_ONCE // numbers[0].numel())
        for first in range(0, len(parts), at_once):
            chosen = slice(first, first + at_once)
            anchor_scales, group_scales = scales[chosen].unbind(1)
            quantised = Quantised(
                numbers[chosen].flatten(0, 1), anchor_scales.flatten(0, 1), group_scales.flatten(0, 1)
            )
            widths = torch.tensor(self._widths[chosen]).repeat_interleave(2)[:, None].to(device)
            profile = self._profile.layers_of(chosen, device)
            restored = narrowed(dequantise(quantised, profile, widths, shape.heads), shape.dtype)
            yield from restored.view(-1, 2, shape.tokens, shape.heads, shape.head_dim)

    def _starts(self, device: str) -> torch.Tensor:
        """Return the first slots of all tables, on an accelerator; it keeps them for the next chunk."""
        if device not in self._on_devices:
            tables = np.stack([self._profile.tables(index, self._level) for index in range(self._profile.layers)])
            by_kind = tables.transpose(2, 0, 1, 3, 4).reshape(2, -1, SYMBOLS)
            self._on_devices[device] = starts_of(by_kind, device)
        return self._on_devices[device]

    def restored(self, cache: torch.Tensor) -> torch.Tensor:
        """Return a chunk after coding and decoding, without making the bitstream."""
        shape = self._layout(shape_of(cache)).shape
        return torch.stack([self._restored(*layer, shape) for layer in enumerate(self._quantised(cache))])

    def _layout(self, shape: KvShape) -> _Layout:
        self._profile.check(shape)
        return _Layout(shape)

    def _quantised(self, cache: torch.Tensor) -> Iterator[Quantised]:
        return in_parallel([partial(self._quantise_layer, *layer) for layer in enumerate(cache.detach().cpu())])

    def _quantise_layer(self, index: int, layer: torch.Tensor) -> Quantised:
        return quantise(codable(layer), self._profile.layer(index, "cpu"), self._widths[index])

    def _restored(self, index: int, quantised: Quantised, shape: KvShape) -> torch.Tensor:
        profile = self._profile.layer(index, quantised.numbers.device)
        return narrowed(dequantise(quantised, profile, self._widths[index], shape.heads), shape.dtype)

    def _encode_layer(self, index: int, layer: torch.Tensor, layout: _Layout) -> bytes:
        quantised = self._quantise_layer(index, layer)
        numbers = quantised.numbers.numpy()
        tables, order = self._profile.tables(index, self._level), layout.order
        streams = [
            encode_stream(numbers[kind, channels], tables[kind][:, channels], order)
            for kind, channels in layout.streams
        ]
        lengths = np.array([len(words) for words in streams], "<u4")
        scales = torch.stack([quantised.anchor_scales, quantised.group_scales]).view(torch.uint8).numpy()
        return b"".join([scales.tobytes(), lengths.tobytes(), *(words.astype("<u2").tobytes() for words in streams)])

    def _decode_layer(self, index: int, part: "_Part", layout: _Layout) -> torch.Tensor:
        """Return a layer's keys and values."""
        numbers = np.empty((2, layout.shape.channels, layout.shape.tokens), np.int16)
        tables, order = self._profile.tables(index, self._level), layout.order
        for (kind, channels), words in zip(layout.streams, part.streams, strict=True):
            decode_stream(words, tables[kind][:, channels], order, numbers[kind, channels])
        return self._restored(index, Quantised(torch.from_numpy(numbers), *part.scales), layout.shape)


@dataclass(frozen=True, slots=True)
class _Part:
    """A coded layer: its scales (2 × 2 × groups), and the words of its streams."""

    scales: torch.Tensor
    streams: list[NDArray[np.uint16]]


def _split(payload: memoryview, layout: _Layout) -> list[_Part]:
    """Split a payload into layers and streams, and check that all are complete."""
    count, place = len(layout.streams), 0

    def take(size: int) -> memoryview:
        nonlocal place
        if place + size > len(payload):
            raise BitstreamError("the streams of this KV chunk are longer than the chunk")
        place += size
        return payload[place - size : place]

    parts = []
    for _ in range(layout.shape.layers):
        scales = torch.frombuffer(bytearray(take(layout.scale_bytes)), dtype=SCALE_DTYPE)
        if not bool(torch.isfinite(scales).all()):
            raise BitstreamError("a scale of this KV chunk is not a finite number")
        lengths = np.frombuffer(take(4 * count), "<u4")
        streams = [np.frombuffer(take(2 * int(length)), "<u2") for length in lengths]
        parts.append(_Part(scales.view(2, 2, layout.groups), streams))
    if place != len(payload):
        raise BitstreamError("this KV chunk is longer than its streams")
    return parts
