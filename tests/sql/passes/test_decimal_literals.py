"""Literals with a point beside decimals keep all digits, as in PostgreSQL."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from flightllm.session.session import Session
from tests.databases import ask

_BIG = "1234567890123456.78"


@pytest.fixture(scope="module")
def prices(session: Session) -> Iterator[Session]:
    """Make a table of decimals."""
    session.update("CREATE TABLE prices (k INT, n NUMERIC, x NUMERIC(20, 2), d DOUBLE PRECISION)")
    session.update(f"INSERT INTO prices VALUES (1, {_BIG}, {_BIG}, 0.5)")
    yield session
    session.update("DROP TABLE prices")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (f"{_BIG}::numeric(20, 2)", _BIG),
        ("CAST(-0.12345678901234567890 AS numeric(38, 20))", "-0.12345678901234567890"),
        ("123456789012345678901234::numeric(30, 2)", "123456789012345678901234.00"),
        ("x + 0.01", "1234567890123456.79"),
        ("(0.01 - x) * 2", "-2469135780246913.54"),
        ("n * 1.5", "1851851835185185.17"),
        ("x % 0.05", "0.03"),
        ("sum(x) + 0.005", "1234567890123456.785"),
        ("coalesce(nullif(x, x), 1234567890123456.789)", "1234567890123456.789"),
        ("CASE WHEN k > 1 THEN x ELSE 1234567890123456.71 END", "1234567890123456.71"),
        ("greatest(x, 1234567890123456.785)", "1234567890123456.785"),
    ],
)
def test_values(prices: Session, value: str, wanted: str) -> None:
    """A cast, an operator, a function and CASE give PostgreSQL's digits."""
    (found,) = ask(prices, f"SELECT {value} AS v FROM prices GROUP BY k, n, x").table.column("v").to_pylist()
    assert found == Decimal(wanted)


@pytest.mark.parametrize(
    "condition",
    [
        f"x = {_BIG}",
        "x > 1234567890123456.77 AND x < 1234567890123456.781",
        f"n IN (0.1, {_BIG})",
        f"x BETWEEN {_BIG} AND 1234567890123456.785",
        f"x IS NOT DISTINCT FROM {_BIG}",
        f"CASE x WHEN {_BIG} THEN true END",
        f"x = ANY (ARRAY[{_BIG}])",
    ],
)
def test_comparisons(prices: Session, condition: str) -> None:
    """A comparison with a literal of 18 digits finds the row that has this value, and not its neighbours."""
    assert ask(prices, f"SELECT k FROM prices WHERE {condition}").table.num_rows == 1
    assert (
        ask(
            prices, f"SELECT k FROM (SELECT k, n + 0.02 AS n, x + 0.02 AS x FROM prices) AS q WHERE {condition}"
        ).table.num_rows
        == 0
    )


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ("UPDATE prices SET x = x + 0.01", "1234567890123456.79"),
        ("UPDATE prices SET x = CASE WHEN k = 1 THEN 1234567890123456.71 ELSE 0 END", "1234567890123456.71"),
        ("UPDATE prices SET x = 1234567890123456.5 + k * 0.25", "1234567890123456.75"),
        ("UPDATE prices SET x = 123456789012345678.0", "123456789012345678.00"),
        ("UPDATE prices SET x = d * 0.5", "0.25"),
        ("INSERT INTO prices (k, x) VALUES (2, 1234567890123456.70 + 0.05)", "1234567890123456.75"),
        ("INSERT INTO prices (k, x) SELECT 2, 1234567890123456.73", "1234567890123456.73"),
    ],
)
def test_changes(prices: Session, change: str, wanted: str) -> None:
    """A column of decimals stores the digits that a statement writes."""
    try:
        prices.update(change)
        (found,) = ask(prices, "SELECT x FROM prices ORDER BY k DESC LIMIT 1").table.column("x").to_pylist()
        assert found == Decimal(wanted)
    finally:
        prices.update("DELETE FROM prices")
        prices.update(f"INSERT INTO prices VALUES (1, {_BIG}, {_BIG}, 0.5)")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("d + 0.1", 0.6),
        ("coalesce(d, 0.5)", 0.5),
        ("k + 0.5", 1.5),
        ("CAST(k AS NUMERIC(5, 2)) * 0.5 / 3 > 0.16666666666", True),
    ],
)
def test_doubles_stay(prices: Session, value: str, wanted: object) -> None:
    """A literal beside a double or a whole number stays a double, and a quotient keeps its digits."""
    assert ask(prices, f"SELECT {value} AS v FROM prices").table.to_pylist() == [{"v": wanted}]
