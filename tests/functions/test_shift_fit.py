"""Changes of probabilities that are fitted to examples."""

import numpy as np
import pytest

from flightllm.functions.shift_fit import Line, Shift, _fit, _leans, _line, _without_each, fitted


def test_a_shifted_cut() -> None:
    """A model that says Yes to all, with less certainty where No is right, is cut in between."""
    given = [(0.97, 0.03), (0.7, 0.3), (0.95, 0.05), (0.75, 0.25), (0.93, 0.07), (0.8, 0.2)]
    shift = fitted(given, [0, 1, 0, 1, 0, 1]).change
    assert isinstance(shift, Shift)
    chosen = [int(np.argmax(shift.of(one))) for one in given]
    assert chosen == [0, 1, 0, 1, 0, 1]
    assert sum(shift.of((0.6, 0.4))) == pytest.approx(1.0)


def test_a_sure_model() -> None:
    """A model that is sure of one option, and less sure where the other one is right, is cut in between."""
    odds = np.array([5.1, 6.9, 5.3, 6.7, 5.5, 6.5, 5.7, 6.3])
    given = [(1 / (1 + np.exp(-one)), 1 / (1 + np.exp(one))) for one in odds]
    shift = fitted(given, [1, 0] * 4).change
    assert isinstance(shift, Shift)
    assert [int(np.argmax(shift.of(one))) for one in given] == [1, 0] * 4


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], []),
        ([(0.9, 0.1)], [0]),
        ([(0.9, 0.1), (0.8, 0.2)], [0, 0]),
        ([(0.5, 0.5), (0.5, 0.5), (0.5, 0.5), (0.5, 0.5)], [0, 1, 0, 1]),
        ([(0.9, 0.1), (0.9, 0.1), (0.9, 0.1), (0.1, 0.9)], [0, 1, 0, 1]),
    ],
    ids=["none", "one", "one option", "no difference", "as good as it can be"],
)
def test_no_offsets(given: list[tuple[float, float]], wanted: list[int]) -> None:
    """Where offsets do not help examples that they were not fitted to, there are none."""
    assert fitted(given, wanted).change is None


def test_right_answers_stay() -> None:
    """A shift makes the answers of a model that is right surer, and changes none of them."""
    given = [(0.8, 0.2), (0.3, 0.7), (0.7, 0.3), (0.2, 0.8)]
    shift = fitted(given, [0, 1, 0, 1]).change
    assert isinstance(shift, Shift)
    assert shift.slope > 1
    assert shift.offsets == pytest.approx((0, 0), abs=0.05)
    assert all(max(shift.of(one)) > max(one) for one in given)


def test_answers_are_never_turned_round() -> None:
    """A model that ranks examples the wrong way round keeps its ranking: eight examples say little."""
    shift = fitted([(0.1, 0.9), (0.9, 0.1), (0.2, 0.8), (0.7, 0.3), (0.1, 0.9), (0.9, 0.1)], [0, 1, 0, 1, 0, 1]).change
    assert isinstance(shift, Shift)
    assert shift.slope > 0
    assert shift.of((0.9, 0.1))[0] > shift.of((0.1, 0.9))[0]


@pytest.mark.parametrize("certainty", [1.0, 5.0, 12.0])
@pytest.mark.parametrize("options", [2, 5])
def test_the_fit_is_the_best(options: int, certainty: float) -> None:
    """No other number near those of a shift has less loss, even where the model is nearly always sure and wrong."""
    random = np.random.default_rng(3)
    wanted = random.integers(0, options, 40)
    logs = certainty * random.normal(0, 1, (40, options))
    logs[:, 1] += 2 * certainty
    logs[range(40), wanted] += certainty
    given = np.exp(logs) / np.exp(logs).sum(1, keepdims=True)
    shift = fitted(given.tolist(), wanted.tolist()).change
    assert isinstance(shift, Shift)

    def loss(numbers: np.ndarray) -> float:
        logits = numbers[0] * np.log(np.maximum(given, 1e-6)) + numbers[1:]
        right = logits[range(40), wanted] - np.log(np.exp(logits).sum(1))
        return float(-right.sum() + 0.05 * ((numbers[0] - 1) ** 2 + (numbers[1:] ** 2).sum()))

    best = np.array([shift.slope, *shift.offsets])
    for place in range(options + 1):
        for change in (-0.01, 0.01):
            near = best.copy()
            near[place] += change
            assert near[0] < 0.1 or loss(near) > loss(best) - 1e-3


def test_equally_many_examples() -> None:
    """An example that is left out does not make its option look rare, so a useless model has an even loss at worst."""
    random = np.random.default_rng(4)
    odds = random.normal(4, 0.01, 8)
    given = [(1 / (1 + np.exp(-one)), 1 / (1 + np.exp(one))) for one in odds]
    found = fitted(given, [0, 1] * 4)
    assert isinstance(found.change, Shift)
    assert found.loss == pytest.approx(np.log(2), abs=0.15)


def test_impossible_options() -> None:
    """A probability of 0 is no infinite distance: endpoints list only the most probable tokens."""
    shift = fitted([(1.0, 0.0), (0.99, 0.01), (1.0, 0.0), (0.98, 0.02)], [0, 1, 0, 1]).change
    assert isinstance(shift, Shift)
    assert all(np.isfinite(shift.offsets))


def test_many_options() -> None:
    """Twelve options, of which the model prefers one, with two examples each."""
    random = np.random.default_rng(5)
    wanted = [place % 12 for place in range(24)]
    logs = random.normal(0, 0.5, (24, 12))
    logs[range(24), wanted] += 2
    logs[:, 3] += 4
    given = np.exp(logs) / np.exp(logs).sum(1, keepdims=True)
    shift = fitted(given.tolist(), wanted).change
    assert isinstance(shift, Shift)
    assert min(shift.offsets) == shift.offsets[3]
    right = np.mean([np.argmax(shift.of(one)) == place for one, place in zip(given, wanted, strict=True)])
    assert right > np.mean(given.argmax(1) == wanted) + 0.5


@pytest.mark.parametrize(("options", "count"), [(2, 8), (2, 20), (4, 8), (6, 8), (6, 24), (12, 24)])
def test_chance_rarely_moves_a_cut(options: int, count: int) -> None:
    """A model that prefers no option, and knows nothing, seems to prefer one in about one of six cases."""
    random = np.random.default_rng(6)
    right = np.arange(count) % options
    leaning = [_leans(np.log(random.dirichlet(np.ones(options), count)), right) for _ in range(600)]
    assert 0.03 < np.mean(leaning) < 0.35


@pytest.mark.parametrize(("yes", "leans"), [(4, False), (5, False), (6, True), (8, True)])
def test_the_limit_of_a_preference(yes: int, leans: bool) -> None:
    """Of eight answers where four are right, six of one option are a preference, and five are not."""
    given = np.log([[0.9, 0.1]] * yes + [[0.1, 0.9]] * (8 - yes))
    assert _leans(given, np.array([0, 1] * 4)) is leans


def test_a_rare_option_is_not_rarer_without_its_example() -> None:
    """A left-out example of three among nine is judged as if its option still were a third of them."""
    even = np.log(np.full((9, 2), 0.5))
    right = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    whole = _fit(even, right, np.ones(9), moves_cut=True)
    found = np.exp(_without_each(even, right, whole, moves_cut=True))
    assert found[0, 0] == pytest.approx(found[8, 0], abs=0.02)
    assert found[0, 0] == pytest.approx(whole.of((0.5, 0.5))[0], abs=0.02)


SCALE = tuple(range(11))


def _around(place: float, spread: float = 1.5) -> list[float]:
    weights = np.exp(-(((np.arange(11) - place) / spread) ** 2))
    return [float(one) for one in weights / weights.sum()]


def test_a_scale_moves() -> None:
    """Ratings that are too low by three points come back to their places, and stay within the scale."""
    wanted = [4, 6, 8, 5, 7, 9]
    found = fitted([_around(one - 3) for one in wanted], wanted, SCALE)
    assert isinstance(found.change, Line)
    assert [found.change.of(one) for one in (2, 4, 6)] == pytest.approx([5, 7, 9], abs=0.6)
    assert found.change.of(10) == 10
    assert found.wrong < 0.1


def test_a_narrow_scale_is_widened() -> None:
    """Ratings that lie close together are drawn apart, in the order that they have."""
    wanted = [0, 10, 2, 8, 4, 6, 1, 9]
    found = fitted([_around(5 + (one - 5) / 5) for one in wanted], wanted, SCALE)
    assert isinstance(found.change, Line)
    moved = [found.change.of(place) for place in (4, 4.5, 5, 5.5, 6)]
    assert moved == sorted(moved)
    assert moved[-1] - moved[0] > 4
    assert moved[2] == pytest.approx(5, abs=0.5)


def test_a_good_scale_does_not_go_flat() -> None:
    """A model whose ratings are near the truth, and never the exact number, keeps them."""
    random = np.random.default_rng(2)
    wanted = random.integers(0, 11, 8)
    given = [_around(place + random.choice([-1, 1]), 0.4) for place in wanted]
    line = fitted(given, wanted.tolist(), SCALE).change
    rated = [float(np.dot(one, SCALE)) for one in given]
    moved = rated if line is None else [line.of(one) for one in rated] if isinstance(line, Line) else []
    assert np.ptp(moved) > 0.8 * np.ptp(rated)
    assert np.abs(np.array(moved) - wanted).mean() < 1.1


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_not_judged_better_than_it_is(seed: int) -> None:
    """Ratings that have nothing to do with the examples stay far from the right ones of others."""
    random = np.random.default_rng(seed)
    given = [_around(random.uniform(0, 10)) for _ in range(8)]
    found = fitted(given, random.integers(0, 11, 8).tolist(), SCALE)
    assert found.wrong > 0.15


def test_a_good_model_keeps_its_scale() -> None:
    """Ratings without bias, off by two points by chance, rarely get a line, and hardly suffer from it."""
    random = np.random.default_rng(7)
    taken = []
    for _ in range(100):
        wanted = random.integers(0, 11, 8).tolist()
        taken.append(fitted([_around(one + random.normal(0, 2)) for one in wanted], wanted, SCALE).change is not None)
    assert np.mean(taken) < 0.25


def test_a_line_is_drawn_to_the_models_own_numbers() -> None:
    """One example moves a line half of the way; two that lie close together hardly turn it."""
    assert _line(np.array([0.5]), np.array([0.7])) == pytest.approx((0.1, 1.0))
    assert _line(np.array([0.49, 0.51]), np.array([0.1, 0.9]))[1] < 1.2


@pytest.mark.parametrize(("given", "wanted"), [([], []), ([_around(3)], [5])])
def test_no_line_for_one_example(given: list[list[float]], wanted: list[int]) -> None:
    """One example cannot be left out and judged by others."""
    assert fitted(given, wanted, SCALE).change is None
