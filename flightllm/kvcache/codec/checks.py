"""What a codec refuses to code."""

import torch

from flightllm.errors import InvalidInputError


def finite(numbers: torch.Tensor) -> torch.Tensor:
    """Return the numbers, all of which are finite.

    Raises:
        InvalidInputError: one is not; quantised, it would take its neighbours with it.
    """
    if not bool(torch.isfinite(numbers).all()):
        raise InvalidInputError("a KV cache with infinities or NaN cannot be quantised; code it as 'raw'")
    return numbers
