"""Decisions by what was learned: numbers in, answers out, and files that hold only numbers."""

import json

import numpy as np
import pytest

from flightllm.learning.learned import Learned, Rows, found, opened


def _filter(cut: float = 0.0) -> Learned:
    return Learned(
        "filter",
        ("embedding", "model"),
        ("Yes", "No"),
        (),
        np.array([[1.0, -1.0, 0.5]]),
        np.array([0.25]),
        np.zeros(3),
        np.ones(3),
        cut=cut,
    )


_ROWS = Rows(
    np.array([[0.9, 0.1], [0.2, 0.8], [np.nan, np.nan], [0.5, 0.5]]),
    np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [np.nan, np.nan]]),
)


def test_filter() -> None:
    """A score is the weighted sum of the vector and the log odds; an unknown feature gives the model's own answer."""
    learned = _filter()
    expected = [1 + 0.5 * np.log(9) + 0.25, -1 + 0.5 * np.log(0.25) + 0.25]
    assert learned.scores(_ROWS)[:2, 0] == pytest.approx(expected)
    assert learned.answers(_ROWS) == [True, False, None, None]
    assert learned.decided(_ROWS, ["false", "true", "true", None]) == [True, False, True, None]
    assert _filter(cut=3.0).answers(_ROWS)[0] is False
    assert learned.margins(_ROWS)[:2] == pytest.approx(np.abs(expected))


def test_labels() -> None:
    """The class with the highest score is the answer; the margin is the distance to the second one."""
    learned = Learned(
        "label", ("model",), ("a", "b", "c"), ("a", "c"), np.array([[1.0, 0, 0], [0, 0, 2.0]]), np.zeros(2),
        np.zeros(3), np.ones(3),
    )  # fmt: skip
    rows = Rows(np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [np.nan] * 3]), np.zeros((3, 0)))
    assert learned.decided(rows, [None, None, "b"]) == ["a", "c", "b"]
    assert (learned.margins(rows)[:2] > 0).all()


def test_scores() -> None:
    """A score is on a line through the knots, and constant beyond them."""
    learned = Learned(
        "score", ("model",), ("1", "2", "3"), (), np.zeros((1, 1)), np.zeros(1), np.zeros(1), np.ones(1),
        knots=np.array([[1.5, 1.0], [2.5, 3.0]]),
    )  # fmt: skip
    rows = Rows(np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [np.nan] * 3]), np.zeros((4, 0)))
    assert learned.decided(rows, [None, None, None, "2.5"]) == [1.0, 2.0, 3.0, 2.5]


def test_file() -> None:
    """A fit is JSON without code; it comes back the same, and a damaged one is refused."""
    learned = _filter(cut=0.125)
    text = json.dumps(learned.as_json())
    again = Learned.of_json(json.loads(text))
    assert again.id == learned.id
    assert again.answers(_ROWS) == learned.answers(_ROWS)
    assert found(opened(again)) in {again, learned}
    for broken in (
        {"kind": "code"},
        {"features": ["a"]},
        {"scale": learned.as_json()["intercepts"]},
        {"weights": {"shape": [1, 3], "float32": "AAAA"}},
    ):
        with pytest.raises(ValueError, match=r".+"):
            Learned.of_json({**json.loads(text), **broken})
