"""Checks of numbers before coding, and their conversion after decoding."""

import torch

from flightllm.errors import InvalidInputError

_LARGEST = 1e15


def codable(numbers: torch.Tensor) -> torch.Tensor:
    """Return the numbers if all of them can be scaled and squared.

    Raises:
        InvalidInputError: a number cannot; it would also spoil the numbers that share its scale.
    """
    if not bool((numbers.abs() <= _LARGEST).all()):
        raise InvalidInputError(f"a KV cache with NaN or beyond {_LARGEST:g} cannot be quantised; code it as 'raw'")
    return numbers


def narrowed(numbers: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return numbers in the type of a chunk; a number rounded above the type's largest becomes the largest."""
    kind: torch.dtype = getattr(torch, dtype)
    largest = torch.finfo(kind).max
    return numbers.clamp(-largest, largest).to(kind)
