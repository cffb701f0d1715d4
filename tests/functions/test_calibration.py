"""Offsets that put the cut between the options right, fitted to a call's examples."""

import numpy as np
import pytest

from flightllm.functions.calibration import Fit, Shift, fitted, helps_in_prompts, probabilities_of, with_shift
from flightllm.functions.confidence import joined
from flightllm.llm.engine import Choice
from tests.udfs.test_shipped_functions import call

FOUR = "examples => [('a', 'Yes'), ('b', 'No'), ('c', 'Yes'), ('d', 'No')]"


def test_a_shifted_cut() -> None:
    """A model that says Yes to all, with less certainty where No is right, is cut in between."""
    given = [(0.97, 0.03), (0.7, 0.3), (0.95, 0.05), (0.75, 0.25), (0.93, 0.07), (0.8, 0.2)]
    shift = fitted(given, [0, 1, 0, 1, 0, 1]).shift
    assert shift is not None
    chosen = [int(np.argmax(shift.of(one))) for one in given]
    assert chosen == [0, 1, 0, 1, 0, 1]
    assert sum(shift.of((0.6, 0.4))) == pytest.approx(1.0)


def test_a_sure_model() -> None:
    """A model that is sure of one option, and less sure where the other one is right, is cut in between."""
    odds = np.array([5.1, 6.9, 5.3, 6.7, 5.5, 6.5, 5.7, 6.3])
    given = [(1 / (1 + np.exp(-one)), 1 / (1 + np.exp(one))) for one in odds]
    shift = fitted(given, [1, 0] * 4).shift
    assert shift is not None
    assert [int(np.argmax(shift.of(one))) for one in given] == [1, 0] * 4


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], []),
        ([(0.9, 0.1)], [0]),
        ([(0.9, 0.1), (0.8, 0.2)], [0, 0]),
        ([(0.5, 0.5), (0.5, 0.5), (0.5, 0.5), (0.5, 0.5)], [0, 1, 0, 1]),
        ([(0.9, 0.1), (0.9, 0.1), (0.9, 0.1), (0.1, 0.9)], [0, 1, 2 % 2, 1]),
    ],
    ids=["none", "one", "one option", "no difference", "as good as it can be"],
)
def test_no_offsets(given: list[tuple[float, float]], wanted: list[int]) -> None:
    """Where offsets do not help examples that they were not fitted to, there are none."""
    assert fitted(given, wanted).shift is None


def test_right_answers_stay() -> None:
    """A shift makes the answers of a model that is right surer, and changes none of them."""
    given = [(0.8, 0.2), (0.3, 0.7), (0.7, 0.3), (0.2, 0.8)]
    shift = fitted(given, [0, 1, 0, 1]).shift
    assert shift is not None
    assert shift.slope > 1
    assert shift.offsets == pytest.approx((0, 0), abs=0.05)
    assert all(max(shift.of(one)) > max(one) for one in given)


def test_answers_are_never_turned_round() -> None:
    """A model that ranks examples the wrong way round keeps its ranking: eight examples say little."""
    shift = fitted([(0.1, 0.9), (0.9, 0.1), (0.2, 0.8), (0.7, 0.3), (0.1, 0.9), (0.9, 0.1)], [0, 1, 0, 1, 0, 1]).shift
    assert shift is not None
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
    shift = fitted(given.tolist(), wanted.tolist()).shift
    assert shift is not None

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
    assert found.shift is not None
    assert found.loss == pytest.approx(np.log(2), abs=0.15)


def test_examples_in_prompts() -> None:
    """Examples stay in the prompts only if the model is clearly better with them."""
    outside = Fit(None, 0.5, 0.7)
    assert helps_in_prompts(Fit(None, 0.25, 0.4), outside)
    assert not helps_in_prompts(Fit(None, 0.25, 0.68), outside)
    assert not helps_in_prompts(Fit(None, 0.5, 0.4), outside)


def test_impossible_options() -> None:
    """A probability of 0 is no infinite distance: endpoints list only the most probable tokens."""
    shift = fitted([(1.0, 0.0), (0.99, 0.01), (1.0, 0.0), (0.98, 0.02)], [0, 1, 0, 1]).shift
    assert shift is not None
    assert all(np.isfinite(shift.offsets))


def test_many_options() -> None:
    """Twelve options, of which the model prefers one, with two examples each."""
    random = np.random.default_rng(5)
    wanted = [place % 12 for place in range(24)]
    logs = random.normal(0, 0.5, (24, 12))
    logs[range(24), wanted] += 2
    logs[:, 3] += 4
    given = np.exp(logs) / np.exp(logs).sum(1, keepdims=True)
    shift = fitted(given.tolist(), wanted).shift
    assert shift is not None
    assert min(shift.offsets) == shift.offsets[3]
    right = np.mean([np.argmax(shift.of(one)) == place for one, place in zip(given, wanted, strict=True)])
    assert right > np.mean(given.argmax(1) == wanted) + 0.5


@pytest.mark.parametrize("options", ["", ", confidence => true"])
def test_the_answer_follows_the_offsets(options: str) -> None:
    """The value and its confidence are those of the shifted probabilities; unknown ones change nothing."""
    asked = call(f"ai_filter('x', a, {FOUR}{options})")
    shifts = with_shift(asked, Shift(1.0, (0.0, float(np.log(6.0)))))
    found = shifts.parse(joined("Yes", (0.7, 0.3)))
    confidence = 0.3 * 6 / (0.7 + 0.3 * 6)
    assert found == (False if not options else {"answer": False, "confidence": pytest.approx(confidence)})
    assert shifts.parse(joined("Yes", None)) == (True if not options else {"answer": True, "confidence": None})
    with pytest.raises(ValueError, match="expected one of Yes, No"):
        shifts.parse(joined("Maybe", (0.7, 0.3)))
    assert probabilities_of(asked).parse(joined("Yes", (0.7, 0.3))) == [0.7, 0.3]
    assert probabilities_of(asked).parse(joined("Yes", (0.7, 0.1))) == []


def test_what_calibrates() -> None:
    """Each example becomes a question with the other examples before it, about the values of its fields."""
    asked = call(f"ai_filter('x', a, {FOUR})")
    assert [one.wanted for one in asked.labelled] == [0, 1, 0, 1]
    assert [one.values for one in asked.labelled] == [("a",), ("b",), ("c",), ("d",)]
    for one, own in zip(asked.labelled, "abcd", strict=True):
        told = [line for line in one.call.instruction.splitlines() if line.startswith("a: ")]
        assert told == [f"a: {other}" for other in "abcd" if other != own]
        assert isinstance(one.call.parameters.constraint, Choice)
        assert one.call.parameters.probability
    assert asked.unaided is not None
    assert "Examples" not in asked.unaided.instruction
    assert asked.unaided.reading == asked.reading


@pytest.mark.parametrize(
    "asked",
    [
        "ai_filter('x', a)",
        f"ai_filter('x', {FOUR})",
        f"ai_filter('x', a, {FOUR}, calibrate => 'off')",
        f"ai_filter('x', a, {FOUR}, temperature => 0.5)",
        "ai_filter('x', a, examples => [('a', 'Yes'), ('b', 'Yes')])",
        "ai_classify(a, ['u', 'v'], multi => true, examples => [('a', ['u']), ('b', ['v'])])",
        "ai_gen('x', a, examples => [('a', 'u'), ('b', 'v')])",
    ],
)
def test_what_does_not(asked: str) -> None:
    """Without examples of two options, with draws, and without a choice, nothing is asked besides the rows."""
    assert call(asked).labelled == ()
