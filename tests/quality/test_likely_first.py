"""The choice of the rows to ask next, where a few rows with yes are wanted."""

from collections.abc import Iterator
from math import inf
from statistics import mean

import numpy as np
import pytest

from flightllm.quality.likely_first import LikelyFirst, Missing, effort, search

UNITS = 2_000
LOGITS = {"good": 3.3, "poor": 1.05, "random": 0.0, "inverted": -3.3}
"""How far the scores of rows with yes lie above those with no, in units of their noise."""


def found(rate: float, limit: int, proxy: str, seed: int, price: float = 0.1) -> tuple[int, int, int]:
    """Return the questions and the scores for `limit` rows, and the questions without a proxy."""
    rng = np.random.default_rng(seed)
    truth = np.zeros(UNITS, bool)
    truth[rng.permutation(UNITS)[: int(rate * UNITS)]] = True
    apart = LOGITS[proxy]
    seen = rng.normal(size=UNITS) + abs(apart) * truth
    odds = np.sign(apart) * (abs(apart) * seen - apart**2 / 2 + np.log(rate / (1 - rate)))
    scores = 1 / (1 + np.exp(-(odds if apart else 3 * seen)))
    took = effort(scores, truth, limit, price)
    alone = int(np.searchsorted(np.cumsum(truth), limit)) + 1 if truth.sum() >= limit else UNITS
    return int(took.asked), int(took.scored), alone


@pytest.mark.parametrize(("rate", "limit"), [(0.01, 5), (0.05, 5), (0.05, 50), (0.3, 50)])
def test_a_good_proxy_saves_questions(rate: float, limit: int) -> None:
    """By good scores, the model gets far fewer questions, and the scores are worth their price."""
    runs = [found(rate, limit, "good", seed) for seed in range(6)]
    asked, scored, alone = (mean(column) for column in zip(*runs, strict=True))
    assert asked < 0.5 * alone
    assert asked + 0.1 * scored < alone


@pytest.mark.parametrize("proxy", ["poor", "random", "inverted"])
@pytest.mark.parametrize(("rate", "limit"), [(0.01, 5), (0.05, 50), (0.3, 50), (0.8, 50)])
def test_a_bad_proxy_costs_a_wave_at_most(proxy: str, rate: float, limit: int) -> None:
    """On average the questions are at most those without a proxy and one wave; here a wave is half of these."""
    runs = [found(rate, limit, proxy, seed) for seed in range(6)]
    asked, _, alone = (mean(column) for column in zip(*runs, strict=True))
    assert asked < 1.5 * alone


def test_where_all_rows_are_wanted_nothing_is_scored() -> None:
    """If there are fewer rows with yes than wanted, a score saves nothing."""
    assert found(0.01, 1_000, "good", 1)[:2] == (UNITS, 0)


def test_a_dear_score_is_not_asked_for() -> None:
    """A score that costs as much as a question saves nothing where most rows pass."""
    assert found(0.8, 100, "good", 1, price=1.0)[1] == 0


def test_answers_correct_the_scores() -> None:
    """Where high scores were wrong and low ones right, the low ones become likely."""
    order = LikelyFirst(0.1)
    scores = np.repeat([0.05, 0.95], 100)
    order.add(scores, np.ones(200, np.int64))
    assert order.best()[0] >= 100
    asked = np.concatenate([np.arange(40), np.arange(100, 140)])
    order.tell(asked, (asked < 100).astype(np.int64))
    assert order.best()[0] < 100


def test_the_order_is_kept_between_changes() -> None:
    """The units are sorted again only after scores or answers came."""
    order = LikelyFirst(0.1)
    order.add(np.array([0.2, 0.9]), np.ones(2, np.int64))
    first = order.best()
    order.move(Missing(1, 10))
    assert order.best() is first
    order.tell(first[:1], np.array([1]))
    assert order.best().tolist() == [0]
    order.add(np.array([0.8]), np.ones(1, np.int64))
    assert order.best().tolist() == [2, 0]


class Sure:
    """Two units: the rows of the first one need no question, and the second one is read."""

    def __init__(self) -> None:
        self.order = LikelyFirst(0.1)
        self.steps: list[str] = []

    def missing(self) -> Missing | None:
        """Return that rows are wanted until the second unit was read."""
        return None if "take" in self.steps else Missing(1, 1)

    def unasked(self) -> Iterator[str] | None:
        """Return the first row once."""
        return None if self.steps else self._step("unasked")

    def ask(self, units: object) -> Iterator[str]:
        """Fail: no unit is scored."""
        raise AssertionError(units)

    def take(self, count: int, *, scored: bool) -> Iterator[str]:
        """Read the second unit."""
        assert (count, scored) == (1, False)
        return self._step("take")

    def _step(self, name: str) -> Iterator[str]:
        self.steps.append(name)
        yield name


def test_rows_that_need_no_question_come_first() -> None:
    """A search takes such rows before it asks, and ends when nothing is wanted."""
    rows = Sure()
    assert list(search(rows.order, rows)) == ["unasked", "take"]


def test_heavy_units_come_first_and_failed_scores_count_as_usual() -> None:
    """A prompt of many rows brings more, and a unit without a score is as likely as any."""
    order = LikelyFirst(0.1)
    order.add(np.array([0.6, 0.6, np.nan]), np.array([1, 9, 1]))
    assert order.best().tolist()[0] == 1
    assert order.likely[2] == 0.5


def test_few_allowed_questions_go_to_scored_rows() -> None:
    """Where the questions cannot reach the rows as they come, the proxy scores rows at once."""
    assert LikelyFirst(0.1).move(Missing(5, 2_000, inf))[0] == "next"
    assert LikelyFirst(0.1).move(Missing(5, 2_000, 6))[0] == "score"
