"""Pick tokens or options by their logits: the best one, or one drawn at a temperature from the most probable."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from flightllm.model.engine import Parameters


class Draws:
    """Pick a token or an option for each prompt of one batch.

    At temperature 0 that is the one of the largest logit, and otherwise a random draw. With a seed, the random numbers
    of a prompt depend on the seed and that prompt alone, whatever other prompts are in the batch. Without a seed, they
    come from the generator `shared`.
    """

    def __init__(self, parameters: Parameters, prompts: Sequence[str], shared: torch.Generator) -> None:
        self._parameters = parameters
        self._shared = shared
        seed = parameters.seed
        self._own = None if seed is None else [random.Random(f"{seed}\0{prompt}") for prompt in prompts]  # noqa: S311

    def pick(self, logits: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """Return the number of the picked column in each row of `logits` (rows × columns).

        `rows` are the places in the batch of the prompts to which the rows of `logits` belong.
        """
        if self._parameters.temperature <= 0:
            return logits.argmax(-1)
        if self._own is None:
            numbers = torch.rand(len(rows), generator=self._shared, device=logits.device)
        else:
            numbers = torch.tensor([self._own[row].random() for row in rows], device=logits.device)
        likely = most_probable((logits.float() / self._parameters.temperature).softmax(-1), self._parameters.top_p)
        return drawn(likely, numbers)


def most_probable(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Set to 0 all but the most probable columns of each row that come to `top_p` together, at least one."""
    if top_p >= 1:
        return probabilities
    ordered = probabilities.sort(descending=True).values
    before = ordered.cumsum(-1) - ordered
    count = (before < top_p).sum(-1, keepdim=True).clamp(min=1)
    return probabilities.masked_fill(probabilities < ordered.gather(-1, count - 1), 0.0)


def drawn(weights: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return the column of each row in which a number from 0 to 1 falls; one of weight 0 never is."""
    ends = weights.cumsum(-1)
    total = ends[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(ends, torch.minimum(numbers[:, None] * total, below), right=True)[:, 0]
