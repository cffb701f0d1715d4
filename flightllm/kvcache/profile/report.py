"""What a profile comes to on KV caches it has not seen: size, the entropy below it, and what is lost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from flightllm.kvcache.codec.cachegen import CacheGenCodec
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.levels import GROUP_TOKENS, LEVELS
from flightllm.kvcache.codec.profile import Profile
from flightllm.kvcache.codec.quantise import SCALE_DTYPE, Quantised, quantise
from flightllm.kvcache.codec.rans import SYMBOLS
from flightllm.kvcache.profile.learn import histogram


@dataclass(frozen=True, slots=True)
class LevelReport:
    """One level, over all chunks: bits an element, beside int8 and the entropy, and what is lost in each layer.

    `entropy_bits` is the entropy of the numbers given their layer, channel and kind, with the scales: what no coder
    that knows no more can go below. `errors` are root mean squares relative to the layer's own, keys' and values'.
    """

    level: int
    bits: float
    entropy_bits: float
    int8_bits: float
    errors: tuple[tuple[float, float], ...]

    @property
    def by_int8(self) -> float:
        """Return how many times smaller than int8 it is."""
        return self.int8_bits / self.bits


def report(profile: Profile, chunks: Sequence[torch.Tensor]) -> list[LevelReport]:
    """Return what each level comes to on chunks of the model."""
    elements = sum(chunk.numel() for chunk in chunks)
    int8 = sum(8 * len(Int8Codec().encode(chunk)) for chunk in chunks) / elements
    found = []
    for level in range(len(LEVELS)):
        codec = CacheGenCodec(profile, level)
        bits = sum(8 * len(codec.encode(chunk)) for chunk in chunks) / elements
        entropy = entropy_bits(profile, level, chunks) / elements
        found.append(LevelReport(level, bits, entropy, int8, _errors(codec, chunks)))
    return found


def entropy_bits(profile: Profile, level: int, chunks: Sequence[torch.Tensor]) -> float:
    """Return the bits of the chunks' scales, and of their numbers by the entropy of each channel's own histograms."""
    symbols = SymbolCounts(profile)
    widths = profile.bins.widths(profile.layers, level)
    for chunk in chunks:
        for index, layer in enumerate(chunk):
            symbols.add(index, quantise(layer, profile.layer(index, "cpu"), widths[index]))
    return symbols.bits()


class SymbolCounts:
    """How often each channel of a model has had each symbol, anchors and others apart; and how many scales."""

    def __init__(self, profile: Profile) -> None:
        self._counts = np.zeros((2, profile.layers, 2, profile.mean.shape[2], SYMBOLS), np.int64)
        self._scales = 0

    def add(self, index: int, quantised: Quantised) -> None:
        """Take in a layer."""
        others = torch.arange(quantised.numbers.shape[2]) % GROUP_TOKENS > 0
        self._counts[0, index] += histogram(quantised.numbers[:, :, ~others])
        self._counts[1, index] += histogram(quantised.numbers[:, :, others])
        self._scales += quantised.anchor_scales.numel() + quantised.group_scales.numel()

    def bits(self, *, by_channel: bool = True) -> float:
        """Return the bits of the scales, and of the numbers by the entropy of each channel, or of all together."""
        counts = self._counts.reshape(-1, SYMBOLS) if by_channel else self._counts.sum((1, 2, 3))
        totals = counts.sum(1, keepdims=True)
        shares = np.divide(counts, totals, out=np.ones(counts.shape), where=counts > 0)
        return 8 * SCALE_DTYPE.itemsize * self._scales - float((counts * np.log2(shares)).sum())


def _errors(codec: CacheGenCodec, chunks: Sequence[torch.Tensor]) -> tuple[tuple[float, float], ...]:
    error = sum((codec.restored(chunk) - chunk).double().square().sum((2, 3, 4)) for chunk in chunks)
    square = sum(chunk.double().square().sum((2, 3, 4)) for chunk in chunks)
    relative = torch.as_tensor(error / square).sqrt()
    return tuple((float(keys), float(values)) for keys, values in relative)
