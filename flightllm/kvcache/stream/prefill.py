"""The time of computing a part of a prompt: constant per token, plus attention to the tokens before it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self, TypeAlias

from flightllm.llm.cost import Rates

Parts: TypeAlias = Sequence[tuple[int, int]]
"""The first token and the end of each part of a prompt."""
_SLOWER: Final = 0.5
_QUICKER: Final = 0.1
"""The weights of the latest measurement of the time per token, if it was slower or quicker than expected.

The estimate rises faster than it falls: machines have other work too, and loading too late is the worse mistake.
"""


def slower_first(seconds: float, expected: float) -> float:
    """Return the weight of a measurement."""
    return _SLOWER if seconds > expected else _QUICKER


@dataclass(frozen=True, slots=True)
class Prefill:
    """The seconds to compute a prompt's tokens `start` to `stop`, with the tokens before them available."""

    rates: Rates
    attention: float = 0.0
    """The extra cost of a token for each token before it, as a fraction of the first token's time."""

    def learned(self, parts: Parts, seconds: float) -> "Prefill":
        """Return the estimate after a step that computed some parts of prompts took `seconds`."""
        expected = self.step(parts)
        share = 1.0 + slower_first(seconds, expected) * (seconds / expected - 1.0)
        return replace(self, rates=self.rates._replace(computed=self.rates.computed * share))

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
        return self.step([(start, stop)])

    def step(self, parts: Parts) -> float:
        """Return the seconds of one step that computes parts of several prompts.

        Example: two prompts of 100 tokens have less attention than one prompt of 200 tokens, so they take less time.
        """
        return self.rates.prefill(
            sum((stop - start) + self.attention * (stop**2 - start**2) / 2 for start, stop in parts)
        )
