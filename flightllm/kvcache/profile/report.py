"""The quality of a profile on KV caches that it was not learned from: size, entropy bound and error."""

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
    """One level over all chunks: bits per element (also of int8 and of the entropy), and the error of each layer.

    `entropy_bits` is the entropy of the numbers given their layer, channel and kind, plus the scales. No coder with the
    same knowledge can need fewer bits. `errors` holds a pair for each layer: the root mean square errors of keys and
    values, relative to the root mean square of the keys and values themselves.
    """

    level: int
    bits: float
    entropy_bits: float
    int8_bits: float
    errors: tuple[tuple[float, float], ...]

    @property
    def by_int8(self) -> float:
        """Return the size of int8 divided by the level's size."""
        return self.int8_bits / self.bits


def report(profile: Profile, chunks: Sequence[torch.Tensor]) -> list[LevelReport]:
    """Return the report of each level on chunks of the model."""
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
    """Return the bits of the chunks' scales, and of their numbers at the entropy of each channel's histograms."""
    symbols = SymbolCounts(profile)
    widths = profile.bins.widths(profile.layers, level)
    for chunk in chunks:
        for index, layer in enumerate(chunk):
            symbols.add(index, quantise(layer, profile.layer(index, "cpu"), widths[index]))
    return symbols.bits()


class SymbolCounts:
    """The counts of each channel's symbols, separately for anchors and others, and the number of scales."""

    def __init__(self, profile: Profile) -> None:
        self._counts = np.zeros((2, profile.layers, 2, profile.mean.shape[2], SYMBOLS), np.int64)
        self._scales = 0

    def add(self, index: int, quantised: Quantised) -> None:
        """Add a layer."""
        others = torch.arange(quantised.numbers.shape[2]) % GROUP_TOKENS > 0
        self._counts[0, index] += histogram(quantised.numbers[:, :, ~others])
        self._counts[1, index] += histogram(quantised.numbers[:, :, others])
        self._scales += quantised.anchor_scales.numel() + quantised.group_scales.numel()

    def bits(self, *, by_channel: bool = True) -> float:
        """Return the bits of the scales, and of the numbers at the entropy of each channel (or of all together)."""
        counts = self._counts.reshape(-1, SYMBOLS) if by_channel else self._counts.sum((1, 2, 3))
        totals = counts.sum(1, keepdims=True)
        shares = np.divide(counts, totals, out=np.ones(counts.shape), where=counts > 0)
        return 8 * SCALE_DTYPE.itemsize * self._scales - float((counts * np.log2(shares)).sum())


def _errors(codec: CacheGenCodec, chunks: Sequence[torch.Tensor]) -> tuple[tuple[float, float], ...]:
    error = sum((codec.restored(chunk) - chunk).double().square().sum((2, 3, 4)) for chunk in chunks)
    square = sum(chunk.double().square().sum((2, 3, 4)) for chunk in chunks)
    relative = torch.as_tensor(error / square).sqrt()
    return tuple((float(keys), float(values)) for keys, values in relative)
