"""The split into halves and the draw of examples."""

from flightllm.evaluation.halves import choosing_half, drawn_examples
from flightllm.evaluation.truth import Question

_YES_NO = Question("yes/no")
_KEYS = [f"row {place}" for place in range(100)]
_WANTED = [place % 10 == 0 for place in range(100)]


def test_halves_have_the_labels_equally_often() -> None:
    """Each half has half of the yes and half of the no, whatever the order of the rows."""
    chosen = choosing_half(_YES_NO, _KEYS, _WANTED)
    assert sum(chosen) == 50
    assert sum(one and true for one, true in zip(chosen, _WANTED, strict=True)) == 5
    turned = choosing_half(_YES_NO, _KEYS[::-1], _WANTED[::-1])
    assert turned[::-1] == chosen


def test_equal_rows_are_drawn_apart() -> None:
    """A value that many rows have is in both halves, as often in one as in the other."""
    chosen = choosing_half(_YES_NO, ["same"] * 200 + _KEYS, [True] * 200 + _WANTED)
    assert 70 <= sum(chosen[:200]) <= 130


def test_single_labels_are_in_either_half() -> None:
    """The hash decides about a label that one row has, so the judging half sees rare labels too."""
    question = Question("classes", tuple(_KEYS))
    assert 25 <= sum(choosing_half(question, _KEYS, _KEYS)) <= 75


def test_numbers_are_split_by_their_size() -> None:
    """Each half has small and large numbers."""
    chosen = choosing_half(Question("numbers"), _KEYS, [float(place) for place in range(100)])
    assert all(sum(chosen[start : start + 25]) in {12, 13} for start in (0, 25, 50, 75))


def test_examples_take_labels_in_turn_and_are_nested() -> None:
    """Four examples have each label twice, and are the first of eight; equal keys are drawn once."""
    eight = drawn_examples(_YES_NO, [*_KEYS, _KEYS[0]], [*_WANTED, True], range(101), 8)
    four = drawn_examples(_YES_NO, [*_KEYS, _KEYS[0]], [*_WANTED, True], range(101), 4)
    assert eight[:4] == four
    assert [_WANTED[place] for place in four] == [True, False, True, False]
    assert len({_KEYS[place % 100] for place in eight}) == 8
