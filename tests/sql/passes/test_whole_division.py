"""The division `//` has DuckDB's values."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("-7 // 2", -3),
        ("7 // -2", -3),
        ("1 + 7 // 2", 4),
        ("8 // 2 * 2", 8),
        ("NULL // 2", None),
        ("CAST(7 AS DOUBLE) // 2", 3.5),
    ],
)
def test_values(session: Session, expression: str, value: object) -> None:
    """Whole numbers lose their fraction toward zero, and doubles keep it."""
    assert rows(session, f"SELECT {expression} AS x") == [{"x": value}]
