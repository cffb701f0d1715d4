"""Draws of the local engine: what can be drawn, how often, and that a seed fixes it."""

import pytest

from flightllm.llm.engine import Parameters

pytest.importorskip("torch", reason="the extra 'local' is not installed")
import torch

from flightllm.engines.local.draws import Draws, drawn, most_probable

PROBABILITIES = [[0.5, 0.1, 0.0, 0.4]]


@pytest.mark.parametrize(
    ("top_p", "left"),
    [(1.0, [0, 1, 3]), (0.95, [0, 1, 3]), (0.9, [0, 3]), (0.6, [0, 3]), (0.5, [0]), (0.0, [0])],
)
def test_most_probable(top_p: float, left: list[int]) -> None:
    """The fewest columns that come to `top_p` are left, and at least one."""
    kept = most_probable(torch.tensor(PROBABILITIES, dtype=torch.float64), top_p)[0]
    assert kept.nonzero()[:, 0].tolist() == left


def test_drawn() -> None:
    """A number falls into the column whose share it is in, and never into one of weight 0."""
    numbers = torch.tensor([0.0, 0.49, 0.51, 0.59, 0.61, 1.0])
    weights = torch.tensor(PROBABILITIES * len(numbers))
    assert drawn(weights, numbers).tolist() == [0, 0, 1, 1, 3, 3]
    assert drawn(torch.tensor([[0.0, 1.0, 0.0]] * 2), torch.tensor([0.0, 1.0])).tolist() == [1, 1]


def test_seeds() -> None:
    """With a seed a prompt's draws are the same in every batch; another seed or prompt has others."""
    logits, generator = torch.zeros(3, 1000), torch.Generator().manual_seed(0)

    def draw(seed: int | None, *prompts: str) -> list[list[int]]:
        draws = Draws(Parameters(temperature=1.0, seed=seed), prompts, generator)
        rows = range(len(prompts))
        return torch.stack([draws.pick(logits[: len(rows)], rows) for _ in range(4)], dim=1).tolist()

    assert draw(1, "a", "b", "c")[1] == draw(1, "b")[0] == draw(1, "c", "b")[1]
    assert len({tuple(draw(seed, prompt)[0]) for seed in (1, 2, None, None) for prompt in "ab"}) == 8


def test_temperature_0() -> None:
    """At temperature 0 the best column is taken, whatever else is asked for."""
    draws = Draws(Parameters(temperature=0.0, seed=3, top_p=0.1), ["a"], torch.Generator())
    assert draws.pick(torch.tensor([[0.1, 0.3, 0.2]]), [0]).tolist() == [1]
