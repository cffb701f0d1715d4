"""What a codec refuses to code, and how it gives numbers back."""

import torch

from flightllm.errors import InvalidInputError

_LARGEST = 1e15


def codable(numbers: torch.Tensor) -> torch.Tensor:
    """Return the numbers, which can all be scaled and squared.

    Raises:
        InvalidInputError: one cannot; quantised, it would take its neighbours with it.
    """
    if not bool((numbers.abs() <= _LARGEST).all()):
        raise InvalidInputError(f"a KV cache with NaN or beyond {_LARGEST:g} cannot be quantised; code it as 'raw'")
    return numbers


def narrowed(numbers: torch.Tensor, dtype: str) -> torch.Tensor:
    """Return numbers in the type of a chunk; what was rounded up beyond its largest becomes that, not infinite."""
    kind: torch.dtype = getattr(torch, dtype)
    largest = torch.finfo(kind).max
    return numbers.clamp(-largest, largest).to(kind)
