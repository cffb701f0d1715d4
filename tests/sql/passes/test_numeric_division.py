"""Quotients of decimals have 16 digits after the point."""

from decimal import Decimal

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import rows


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("10 / CAST(3 AS numeric)", "3.3333333333333333"),
        ("CAST('20.00' AS numeric(12, 2)) / 3", "6.6666666666666667"),
        ("CAST('1' AS numeric(5, 3)) / CAST('8' AS numeric(5, 3))", "0.125"),
        ("-1 / CAST('100' AS numeric(9, 2))", "-0.01"),
    ],
)
def test_values(session: Session, value: str, wanted: str) -> None:
    """A quotient is rounded, and has more digits than DataFusion's."""
    assert rows(session, f"SELECT {value} AS v") == [{"v": Decimal(wanted)}]


@pytest.mark.parametrize("sql", ["SELECT 7 / 2", "SELECT d / 3 FROM t", "SELECT CAST(1 AS double) / 3::numeric"])
def test_other_texts_stay(sql: str) -> None:
    """A quotient of whole numbers or doubles stays, and so does one of unknown types."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))
