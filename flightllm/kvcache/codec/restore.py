"""Whole numbers of 8 bits back to the numbers of a chunk in one pass, compiled by numba.

numba has no numbers of 16 bits, so their bits are computed with whole numbers: rounded to the nearest, ties to even.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from flightllm.errors import MissingExtraError
from flightllm.kvcache.codec.container import DTYPES

try:
    import numba
except ImportError as exc:
    raise MissingExtraError("coding KV caches", "kvcache") from exc

_HALF, _BFLOAT16 = DTYPES.index("float16"), DTYPES.index("bfloat16")
_SIGN = np.uint32(0x8000)
_HALF_FROM_SINGLE = np.uint32((1 << 32) - (112 << 23) + 0xFFF)
"""Moves the exponent's zero from 127 to 15, and rounds the 13 bits that are cut off up from more than their half."""
_SMALLEST_HALF = np.uint32(113 << 23)
"""The smallest normal half-precision number, in bits of single precision."""
_FIXED = np.float32(0.5)
"""A number added to 0.5 has its last bit where half precision has that of its subnormal numbers."""
_FIXED_BITS = np.uint32(126 << 23)


def restore(
    numbers: NDArray[np.int8], steps: NDArray[np.float32], means: NDArray[np.float32], group: int, out: torch.Tensor
) -> None:
    """Fill `out` (tokens × channels) with number × step + mean, limited to the largest number of its type.

    `steps` has one step for each `group` tokens, `means` one mean for each channel.
    """
    kind = DTYPES.index(str(out.dtype).removeprefix("torch."))
    bits = out if out.dtype == torch.float32 else out.view(torch.uint16)
    _restore(numbers, steps, means, group, np.float32(torch.finfo(out.dtype).max), kind, bits.numpy())


@numba.njit(nogil=True, cache=True)
def _restore(numbers, steps, means, group, largest, kind, out):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
    tokens, channels = numbers.shape
    row, fixed = np.empty(channels, np.float32), np.empty(channels, np.float32)
    bits, fixed_bits = row.view(np.uint32), fixed.view(np.uint32)
    for token in range(tokens):
        step, line, found = steps[token // group], numbers[token], out[token]
        for channel in range(channels):
            number = np.float32(line[channel]) * step + means[channel]
            row[channel] = min(max(number, -largest), largest)
            fixed[channel] = abs(row[channel]) + _FIXED
        if kind == _HALF:
            for channel in range(channels):
                size = bits[channel] & np.uint32(0x7FFFFFFF)
                normal = (size + _HALF_FROM_SINGLE + ((size >> np.uint32(13)) & np.uint32(1))) >> np.uint32(13)
                small = fixed_bits[channel] - _FIXED_BITS
                sign = (bits[channel] >> np.uint32(16)) & _SIGN
                found[channel] = sign | (small if size < _SMALLEST_HALF else normal)
        elif kind == _BFLOAT16:
            for channel in range(channels):
                odd = (bits[channel] >> np.uint32(16)) & np.uint32(1)
                found[channel] = (bits[channel] + np.uint32(0x7FFF) + odd) >> np.uint32(16)
        else:
            for channel in range(channels):
                found[channel] = row[channel]
