"""Counts and money as text."""

import pytest

from flightllm.common.amounts import counted, money


@pytest.mark.parametrize(
    ("dollars", "text"),
    [
        (0, "$0.00"),
        (0.00001234, "$0.000012"),
        (0.0123, "$0.012"),
        (0.5, "$0.50"),
        (12.345, "$12.35"),
        (1e4, "$10,000.00"),
    ],
)
def test_money(dollars: float, text: str) -> None:
    """Small amounts keep two digits that count."""
    assert money(dollars) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2_000, "2,000 rows")])
def test_counted(number: int, text: str) -> None:
    """Only one thing has no s."""
    assert counted(number, "row") == text
