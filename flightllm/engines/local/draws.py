"""Pick tokens or options by their logits: greedily, or by a draw at a temperature with top-p."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from flightllm.llm.engine import Parameters


class Draws:
    """A sampler that picks a token or an option for each prompt of one batch.

    At temperature 0, it picks the largest logit, otherwise it draws at random. With a seed, the random numbers of a
    prompt depend only on the seed and the prompt, not on the other prompts of the batch. Without a seed, the numbers
    come from the generator `shared`.
    """

    def __init__(self, parameters: Parameters, prompts: Sequence[str], shared: torch.Generator) -> None:
        self._parameters = parameters
        self._shared = shared
        seed = parameters.seed
        self._own = None if seed is None else [random.Random(f"{seed}\0{prompt}") for prompt in prompts]  # noqa: S311

    def pick(self, logits: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """Return the number of the picked column in each row of `logits` (rows × columns).

        `rows` are the positions of these prompts in the batch, one for each row of `logits`.
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
    """Return probabilities (rows × columns) in which only the most probable columns of each row are not 0.

    The kept columns are the fewest that reach `top_p` together, at least one. An example of a row with `top_p` 0.7:

    | column | probability | sum of the more probable columns | result |
    |---|---|---|---|
    | 0 | 0.6 | 0.0 | 0.6 |
    | 1 | 0.3 | 0.6 | 0.3 |
    | 2 | 0.1 | 0.9 | 0.0 |
    """
    if top_p >= 1:
        return probabilities
    ordered = probabilities.sort(descending=True).values
    before = ordered.cumsum(-1) - ordered
    count = (before < top_p).sum(-1, keepdim=True).clamp(min=1)
    return probabilities.masked_fill(probabilities < ordered.gather(-1, count - 1), 0.0)


def drawn(weights: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Return, for each row, the column in which its number from 0 to 1 falls; never a column of weight 0.

    Each column takes a part of the interval from 0 to 1, in proportion to its weight.
    """
    ends = weights.cumsum(-1)
    total = ends[:, -1:]
    below = torch.nextafter(total, torch.zeros_like(total))
    return torch.searchsorted(ends, torch.minimum(numbers[:, None] * total, below), right=True)[:, 0]
