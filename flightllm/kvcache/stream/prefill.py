"""The time of computing a part of a prompt: constant per token, plus attention to the tokens before it."""

from dataclasses import dataclass
from typing import Self

from flightllm.llm.cost import Rates


@dataclass(frozen=True, slots=True)
class Prefill:
    """The seconds to compute a prompt's tokens `start` to `stop`, with the tokens before them available."""

    rates: Rates
    attention: float = 0.0
    """The extra cost of a token for each token before it, as a fraction of the first token's time."""

    @classmethod
    def of(cls, rates: Rates, layers: int, width: int, parameters: int) -> Self:
        """Return the costs of a model with `parameters` parameters, whose attention has `width` channels in each layer.

        A token takes 2 operations for each parameter, and 4 for each channel, layer and token before it.
        """
        return cls(rates, 2 * layers * width / parameters)

    def __call__(self, start: int, stop: int) -> float:
        """Return the seconds; 0 for no tokens."""
        if stop <= start:
            return 0.0
        return self.rates.prefill((stop - start) + self.attention * (stop**2 - start**2) / 2)
