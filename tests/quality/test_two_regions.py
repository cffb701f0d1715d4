"""Verdicts are certified only where their recall and precision hold, and few rows prove good verdicts."""

import numpy as np
import pytest

from flightllm.quality.targets import Targets
from flightllm.quality.two_regions import TwoRegions

TARGETS = Targets(0.9, 0.9)


def run(sizes: tuple[int, int], errors: tuple[int, int], seed: int, targets: Targets = TARGETS) -> TwoRegions:
    """Draw rows of two regions with so many errors until the drawing ends."""
    rng = np.random.default_rng(seed)
    accepted, rejected = (rng.permutation(size) < wrong for size, wrong in zip(sizes, errors, strict=True))
    regions = TwoRegions(*sizes, 0, targets, sum(sizes) // 2)
    while sum(wave := regions.wave()):
        first, second = regions.accepted.drawn, regions.rejected.drawn
        regions.tell(
            (wave[0], int(accepted[first : first + wave[0]].sum())),
            (wave[1], int(rejected[second : second + wave[1]].sum())),
        )
    return regions


def rates(regions: TwoRegions, errors: tuple[int, int]) -> tuple[float, float]:
    """Return the recall and the precision of the verdicts after the found errors are corrected."""
    wrong, missed = errors[0] - regions.accepted.errors, errors[1] - regions.rejected.errors
    right = regions.accepted_rows - errors[0] + regions.rejected.errors
    return right / max(1, right + missed), right / max(1, right + wrong)


def test_good_verdicts_need_few_rows() -> None:
    """Without an error, about forty rows of each region prove the usual targets."""
    regions = run((4_096, 4_096), (0, 0), 1)
    assert regions.held()
    assert regions.accepted.drawn + regions.rejected.drawn <= 90
    regions = run((25_000, 225_000), (0, 0), 1)
    assert regions.held()
    assert regions.accepted.drawn + regions.rejected.drawn <= 420


WRONG = [
    pytest.param((7_500, 42_500), (0, 17_500), id="recall .3"),
    pytest.param((8_800, 41_200), (0, 1_200), id="recall .88"),
    pytest.param((5_000, 20_000), (600, 0), id="precision .88"),
]


def missed(sizes: tuple[int, int], errors: tuple[int, int], seed: int) -> bool:
    """Return whether wrong verdicts were certified and stayed wrong."""
    regions = run(sizes, errors, seed)
    assert regions.held() != bool(regions.reason)
    return regions.held() and min(rates(regions, errors)) < 0.9


@pytest.mark.parametrize(("sizes", "errors"), WRONG)
def test_wrong_verdicts_are_not_certified(sizes: tuple[int, int], errors: tuple[int, int]) -> None:
    """A recall or precision below its target is not certified, unless the sample corrects enough errors."""
    assert not any(missed(sizes, errors, seed) for seed in range(4))


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "errors"), WRONG)
def test_wrong_verdicts_are_seldom_certified(sizes: tuple[int, int], errors: tuple[int, int]) -> None:
    """Over 200 seeds, wrong verdicts are certified at most as often as delta allows."""
    assert sum(missed(sizes, errors, seed) for seed in range(200)) <= 0.05 * 200


def test_no_row_may_be_accepted_unasked_without_a_precision() -> None:
    """With a recall alone, the accepted rows are known, and all of the uncertainty is for the rejected ones."""
    regions = TwoRegions(0, 10_000, 1_000, Targets(0.9), 5_000)
    while sum(wave := regions.wave()):
        regions.tell((wave[0], 0), (wave[1], 0))
    assert regions.held()
    assert regions.accepted.drawn == 0


def test_nothing_to_accept() -> None:
    """Where nothing is accepted, a recall can only be proved by asking; so the proof is given up."""
    regions = run((0, 500), (0, 0), 1)
    assert not regions.held()
    assert "questions" in regions.reason or "errors" in regions.reason
