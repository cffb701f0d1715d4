"""`max_by` and its likes leave out rows with a NULL, as in DuckDB."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows

_GIVEN = "(VALUES (1, 2), (NULL, 3), (4, NULL), (5, 1)) v(a, b)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("max_by(a, b)", 1),
        ("arg_max(a, b)", 1),
        ("min_by(a, b)", 5),
        ("arg_min(a, b)", 5),
        ("max_by(a, b) FILTER (WHERE a > 1 OR a IS NULL)", 5),
        ("max_by(a, b) FILTER (WHERE a > 9)", None),
        ("max_by(a, b, 1)", [1]),
        ("min_by(a, b, 1) FILTER (WHERE a > 9)", None),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """Each call has DuckDB's value."""
    assert rows(session, f"SELECT {expression} AS x FROM {_GIVEN}") == [{"x": value}]


@pytest.mark.parametrize(("expression", "written"), [("max_by(a, b) OVER ()", "first_value")])
def test_refused(session: Session, expression: str, written: str) -> None:
    """A call that has no counterpart says what to write."""
    with pytest.raises(UnsupportedError, match=written):
        rows(session, f"SELECT {expression} AS x FROM {_GIVEN}")


@pytest.mark.parametrize("written", ["array_agg(a ORDER BY b)", "first_value(a) OVER (ORDER BY b)"])
def test_advice_runs(session: Session, written: str) -> None:
    """What the errors say to write runs."""
    assert rows(session, f"SELECT {written} AS x FROM {_GIVEN}")
