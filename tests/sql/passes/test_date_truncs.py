"""The start of a date's month has a time zone, as in PostgreSQL."""

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import rows


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("date_trunc('month', date '2024-02-29')::text", "2024-02-01 00:00:00+00"),
        ("date_trunc('month', timestamp '2024-02-29 10:00:00')::text", "2024-02-01 00:00:00"),
        ("date_trunc('month', date '2024-02-29') = date '2024-02-01'", True),
        ("date_trunc('year', date '2024-02-29')::date::text", "2024-01-01"),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A date gives a timestamp with a zone, and a timestamp one without."""
    assert rows(session, f"SELECT {value} AS v") == [{"v": wanted}]


def test_other_texts_stay() -> None:
    """A call over a value of unknown type stays."""
    assert not list(edits(ParsedText("SELECT date_trunc('day', a) FROM t"), lambda _: {}, lambda _: False))
