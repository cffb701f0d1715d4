"""A decimal beside a double is a double, as in PostgreSQL 15."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.fixture(scope="module")
def prices(session: Session) -> Iterator[Session]:
    """Return a session with a table of decimals and doubles."""
    session.update("CREATE TABLE prices (k int, p numeric(10, 2), d double)")
    session.update("INSERT INTO prices VALUES (1, 1.10, 1e16), (2, NULL, 0.1)")
    yield session
    session.update("DROP TABLE prices")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("coalesce(p, d)", [1.1, 0.1]),
        ("CASE WHEN p IS NULL THEN d ELSE p END", [1.1, 0.1]),
        ("greatest(p, d)", [1e16, 0.1]),
        ("nullif(p, 1.1::float8)", [None, None]),
        ("nullif(p, d)", [Decimal("1.10"), None]),
        ("coalesce(p, 0.5)", [Decimal("1.10"), Decimal("0.50")]),
    ],
)
def test_values(prices: Session, value: str, wanted: list[object]) -> None:
    """Functions and CASE read the decimal as a double; beside a literal it stays a decimal."""
    assert [row["v"] for row in rows(prices, f"SELECT {value} AS v FROM prices ORDER BY prices.k")] == wanted


def test_union(prices: Session) -> None:
    """The columns of a set operation are doubles."""
    found = rows(prices, "SELECT p AS v FROM prices WHERE k = 1 UNION ALL SELECT d FROM prices ORDER BY 1")
    assert [row["v"] for row in found] == [0.1, 1.1, 1e16]
