"""Literals with a point compute exactly."""

import pytest

from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("0.1 + 0.2 = 0.3", True),
        ("0.3 <> (0.1 + 0.2)", False),
        ("CAST(1 / 2.0 AS text)", "0.50000000000000000000"),
        ("CAST(20000 / 3.0 AS text)", "6666.6666666666666667"),
        ("CAST(0.1 * -0.2 AS text)", "-0.02"),
        ("CAST(1e3 / 7 AS text)", "142.8571428571428571"),
        ("0.5 - 1 = -0.5", True),
        ("7 / 2", 3),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A sum, a product and a quotient of literals have all digits of PostgreSQL."""
    assert ask(session, f"SELECT {value} AS v").table.to_pylist() == [{"v": wanted}]
