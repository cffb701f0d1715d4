"""What computing a part of a prompt takes: as much for each token, and more the more tokens are before it."""

from dataclasses import dataclass
from typing import Self

from flightllm.model.cost import Rates


@dataclass(frozen=True, slots=True)
class Prefill:
    """Seconds to compute a prompt's tokens `start` to `stop` once those before are there."""

    rates: Rates
    attention: float = 0.0
    """By how much of a first token's time each token before it makes a token dearer."""

    @classmethod
    def of(cls, rates: Rates, layers: int, width: int, parameters: int) -> Self:
        """Return the costs of a model of so many parameters, whose attention has `width` channels in each layer.

        A token takes 2 operations for each parameter, and 4 for each channel, layer and token before it.
        """
        return cls(rates, 2 * layers * width / parameters)

    def __call__(self, start: int, stop: int) -> float:
        """Return the seconds; none where there are no tokens."""
        if stop <= start:
            return 0.0
        return self.rates.prefill((stop - start) + self.attention * (stop**2 - start**2) / 2)
