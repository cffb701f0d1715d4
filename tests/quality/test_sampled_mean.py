"""The mean of sampled answers: what it asks, and whether its interval holds at every wave."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from flightllm.quality.bins import Floats, Ints
from flightllm.quality.prediction import predict
from flightllm.quality.sampled_mean import Estimate, SampledMean


@dataclass(frozen=True)
class Ran:
    """A mean after its last wave, and the estimate of each wave."""

    mean: SampledMean
    told: list[Estimate]
    asked: Ints

    def holds(self, truth: float) -> bool:
        """Return whether the interval holds the truth at every wave."""
        return all(one.low - 1e-9 <= truth <= one.high + 1e-9 for one in self.told)  # type: ignore[operator]


def run(
    values: Floats,
    seed: int,
    *,
    weights: Ints | None = None,
    scores: Floats | None = None,
    known: Floats | None = None,
    within: float = 0.05,
    skips: bool = False,
    most: float = math.inf,
    yes_or_no: bool = True,
    fixed_rows: int = 0,
) -> Ran:
    """Ask until the mean needs no more."""
    size = len(values)
    found = np.full(size, np.nan) if known is None else known
    mean = SampledMean(
        np.ones(size, np.int64) if weights is None else weights,
        found,
        np.random.default_rng([seed, 1]).random(size),
        within=within,
        confidence=0.95,
        skips=skips,
        fixed_rows=fixed_rows,
    )
    own = np.full(size, np.nan) if scores is None else scores
    asked, told = np.empty(0, np.int64), [mean.estimate()]
    while True:
        there = asked[~np.isnan(values[asked])]
        guess = predict(own, there, values[there], yes_or_no=yes_or_no)
        units = mean.next_wave(guess.expected, guess.spread, most - len(asked))
        if not len(units):
            return Ran(mean, told, asked)
        assert not set(units.tolist()) & set(asked.tolist())
        asked = np.concatenate([asked, units])
        mean.tell(values[units])
        told.append(mean.estimate())


def _scored(rng: np.random.Generator, size: int) -> tuple[Floats, Floats]:
    scores = rng.beta(0.3, 0.6, size)
    return scores, (rng.random(size) < scores).astype(float)


def _weighted(rng: np.random.Generator, size: int) -> Ints:
    return rng.zipf(1.7, size).clip(1, size // 5)


Case = Callable[[np.random.Generator, int], tuple[float, Ran]]


def _plain(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    values = (rng.random(1_000) < 0.2).astype(float)
    return values.mean(), run(values, seed)


def _with_proxy(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    scores, values = _scored(rng, 1_000)
    return values.mean(), run(values, seed, scores=scores)


def _inverted(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    scores, values = _scored(rng, 1_000)
    return values.mean(), run(values, seed, scores=1 - scores)


def _duplicates(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    scores, values = _scored(rng, 600)
    weights = _weighted(rng, 600)
    return float(weights @ values / weights.sum()), run(values, seed, scores=scores, weights=weights)


def _ratings(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    values = rng.beta(2, 5, 1_500)
    scores = np.clip(values + rng.normal(0, 0.1, 1_500), 0, 1)
    return values.mean(), run(values, seed, scores=scores, yes_or_no=False, within=0.02, skips=True)


def _failing(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    values = rng.beta(2, 5, 1_500)
    values[(rng.random(1_500) < 0.3) & (values > 0.2)] = np.nan  # answers fail more often where they are high
    return float(np.nanmean(values)), run(values, seed, yes_or_no=False, skips=True, within=0.03)


def _beside_known(rng: np.random.Generator, seed: int) -> tuple[float, Ran]:
    scores, values = _scored(rng, 1_000)
    known = np.where((values == 1) & (rng.random(1_000) < 0.7), values, np.nan)  # only yes is known
    return values.mean(), run(values, seed, scores=scores, known=known)


CASES = [_plain, _with_proxy, _inverted, _duplicates, _ratings, _failing, _beside_known]


@pytest.mark.parametrize("case", CASES)
def test_the_interval_holds_at_every_wave(case: Case) -> None:
    """Of 20 tables, at most 5 have an interval that misses once: with probability 0.9997 or more."""
    missed = 0
    for seed in range(20):
        truth, ran = case(np.random.default_rng([seed, 17]), seed)
        missed += not ran.holds(truth)
        assert ran.mean.done
        assert ran.mean.reason in {"narrow", "exact"}
    assert missed <= 5


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_it_holds_in_many_tables(case: Case) -> None:
    """Of 1,000 tables, at most 5 % have an interval that misses once."""
    missed = 0
    for seed in range(1_000):
        truth, ran = case(np.random.default_rng([seed, 18]), seed)
        missed += not ran.holds(truth)
    assert missed <= 50


def test_a_good_proxy_saves_questions() -> None:
    """The same width takes less than half of the answers."""
    scores, values = _scored(np.random.default_rng(3), 20_000)
    helped, plain = run(values, 3, scores=scores, within=0.02), run(values, 3, within=0.02)
    assert helped.mean.asked < plain.mean.asked / 2
    for ran in (helped, plain):
        last = ran.told[-1]
        assert last.value is not None
        assert last.low is not None
        assert last.high is not None
        assert max(last.high - last.value, last.value - last.low) <= 0.02 + 1e-9


def test_few_units_are_asked_in_full() -> None:
    """A small table gets the exact mean, in one wave."""
    values = np.array([1.0, 0.0, 1.0, 1.0])
    ran = run(values, 0, weights=np.array([5, 1, 1, 1]))
    assert ran.told[-1] == Estimate(7 / 8, 7 / 8, 7 / 8)
    assert len(ran.told) == 2
    assert ran.mean.reason == "exact"


def test_a_narrow_wish_asks_all() -> None:
    """An interval that nearly all units are needed for becomes exact."""
    values = (np.random.default_rng(0).random(300) < 0.5).astype(float)
    ran = run(values, 0, within=0.001)
    assert ran.mean.asked == 300
    assert ran.told[-1].low == ran.told[-1].high == pytest.approx(values.mean())


def test_known_answers_are_never_asked() -> None:
    """With all answers known, the mean is exact at once; rows without a prompt are known to be 0."""
    values = np.array([1.0, 0.0])
    ran = run(values, 0, known=values, fixed_rows=2)
    assert ran.mean.asked == 0
    assert ran.told[-1] == Estimate(0.25, 0.25, 0.25)


def test_a_budget_leaves_the_interval_wide() -> None:
    """The label budget is never exceeded, and the last interval stands."""
    values = (np.random.default_rng(0).random(3_000) < 0.5).astype(float)
    ran = run(values, 0, within=0.01, most=150)
    assert ran.mean.asked == 150
    assert ran.mean.missed
    assert ran.mean.reason == "label_budget"
    assert ran.holds(values.mean())


def test_no_rows_and_no_answers() -> None:
    """Without a row, or without an answer, there is no mean; where such rows count as 0, it is 0."""
    nothing = np.empty(0)
    assert run(nothing, 0).told[-1] == Estimate(None, None, None)
    failing = np.full(5, np.nan)
    assert run(failing, 0, skips=True).told[-1] == Estimate(None, None, None)
    assert run(failing, 0).told[-1] == Estimate(0.0, 0.0, 0.0)


def test_a_stopped_mean_keeps_its_interval() -> None:
    """A wave whose answers do not come changes nothing."""
    mean = SampledMean(
        np.ones(500, np.int64), np.full(500, np.nan), np.random.default_rng(0).random(500), within=0.01, confidence=0.95
    )
    flat = np.full(500, 0.5)
    mean.tell((np.arange(len(mean.next_wave(flat, flat))) % 2).astype(float))
    before = mean.estimate()
    assert len(mean.next_wave(flat, flat))
    mean.stop("budget")
    assert mean.missed
    assert mean.estimate() == before
    with pytest.raises(ValueError, match="last wave"):
        mean.tell(np.zeros(1))
