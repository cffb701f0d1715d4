"""Aggregates over sums and lists have DuckDB's values, which the tests have from DuckDB 2.0."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows

_GIVEN = "(VALUES (1, 1), (2, 2), (3, 2), (4, 5), (5, NULL), (6, 9)) v(id, x)"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("entropy(x)", 1.9219280948873623),
        ("kurtosis(x)", 0.9057559612193202),
        ("kurtosis_pop(x)", -0.7735610096951699),
        ("skewness(x)", 1.294262998848746),
        ("product(x)", 180.0),
        ("product(DISTINCT x)", 90.0),
        ("sem(x)", 1.3084341787036902),
        ("geomean(x)", 2.825234500494767),
        ("entropy(x) FILTER (WHERE id > 9)", 0.0),
        ("product(x) FILTER (WHERE id > 9)", None),
        ("skewness(x) FILTER (WHERE id < 3)", None),
        ("skewness(x) FILTER (WHERE x = 2)", None),
        ("kurtosis(x) FILTER (WHERE id < 4)", None),
        ("sem(x) FILTER (WHERE id = 1)", 0.0),
        ("geomean(x) FILTER (WHERE id > 9)", None),
    ],
)
def test_values(session: Session, expression: str, value: float | None) -> None:
    """Each aggregate has DuckDB's value, also over few rows, no rows and equal values."""
    assert rows(session, f"SELECT {expression} AS r FROM {_GIVEN}") == [{"r": pytest.approx(value)}]


@pytest.mark.parametrize("shift", ["100000", "1000000000"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("skewness", 1.697056274847714), ("kurtosis", 3.152), ("kurtosis_pop", -0.212), ("sem", 1.4142135623730951)],
)
def test_shifted(session: Session, name: str, value: float, shift: str) -> None:
    """Values far from 0 have the moments of the same values near 0."""
    given = "(VALUES (1), (2), (NULL), (3), (4), (10)) v(x)"
    assert rows(session, f"SELECT {name}(x + {shift}) AS r FROM {given}") == [{"r": pytest.approx(value)}]


def test_equal(session: Session) -> None:
    """Equal values have no skewness, also where their sum is not exact."""
    query = "SELECT skewness(x) AS s, kurtosis(x) AS k FROM (VALUES (0.1), (0.1), (0.1), (0.1), (0.1)) v(x)"
    assert rows(session, query) == [{"s": None, "k": None}]


def test_groups_and_windows(session: Session) -> None:
    """Each group has its own value, and a window too."""
    grouped = f"SELECT id > 3 AS late, product(x) AS r FROM {_GIVEN} GROUP BY id > 3 ORDER BY late"
    assert rows(session, grouped) == [{"late": False, "r": 4.0}, {"late": True, "r": 45.0}]
    running = rows(session, f"SELECT sem(x) OVER (ORDER BY id) AS r FROM {_GIVEN} ORDER BY id LIMIT 2")
    assert [row["r"] for row in running] == [0.0, pytest.approx(0.5 / 2**0.5)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("histogram(x)", [(1, 1), (2, 2), (5, 1), (9, 1)]),
        ("histogram(DISTINCT x)", [(1, 1), (2, 1), (5, 1), (9, 1)]),
        ("histogram(x) FILTER (WHERE id > 4)", [(9, 1)]),
        ("histogram(x) FILTER (WHERE id = 5)", None),
        ("histogram(x) FILTER (WHERE id > 9)", None),
        ("histogram(x)[2]", 2),
        ("typeof(histogram(CAST(x AS INT)))", "MAP(INTEGER, UBIGINT)"),
        ("histogram(x > 1)", [(False, 1), (True, 4)]),
        ("histogram(x / CAST(2 AS DOUBLE))", [(0.5, 1), (1.0, 2), (2.5, 1), (4.5, 1)]),
        ("histogram(DATE '2024-01-31' + CAST(x AS INT)) IS NULL", False),
    ],
)
def test_histogram(session: Session, expression: str, value: object) -> None:
    """A histogram maps values to their counts in the order of the values."""
    assert rows(session, f"SELECT {expression} AS r FROM {_GIVEN}") == [{"r": value}]


def test_histograms(session: Session) -> None:
    """Groups have their own histograms, and a group of NULLs has none."""
    query = f"SELECT id % 3 AS g, histogram(x) AS r FROM {_GIVEN} WHERE id <> 2 GROUP BY id % 3 ORDER BY g"
    assert [row["r"] for row in rows(session, query)] == [[(2, 1), (9, 1)], [(1, 1), (5, 1)], None]
    query = f"SELECT histogram(x) OVER (ORDER BY id) AS r FROM {_GIVEN} ORDER BY id LIMIT 2"
    assert [row["r"] for row in rows(session, query)] == [[(1, 1)], [(1, 1), (2, 1)]]


def test_together(session: Session) -> None:
    """Several aggregates of a column can stand beside its sum and its list."""
    query = f"SELECT entropy(x) > 1 AS e, product(x) AS p, sem(x) > 1 AS s, sum(x) AS a, count(x) AS n FROM {_GIVEN}"
    assert rows(session, query) == [{"e": True, "p": 180.0, "s": True, "a": 19, "n": 5}]


def test_model(session: Session) -> None:
    """A value that calls a model is not computed several times."""
    with pytest.raises(UnsupportedError, match="subquery"):
        rows(session, "SELECT skewness(ai_score('How good?', name)) FROM people")
