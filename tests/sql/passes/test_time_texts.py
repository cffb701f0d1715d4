"""Casts of texts to times have PostgreSQL's values."""

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import ask, rows


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("timestamp '2024-01-01 08:00+05'", "2024-01-01 08:00:00"),
        ("timestamptz '2024-01-01 08:00+05'", "2024-01-01 03:00:00+00"),
        ("CAST('2024-01-05 10:00:00.1234567' AS timestamp)", "2024-01-05 10:00:00.123457"),
        ("'083000'::time", "08:30:00"),
        ("timestamp(0) '2024-12-31 23:59:59.5'", "2025-01-01 00:00:00"),
        ("(timestamp '2024-01-01 00:00:00.0006')::timestamp(3)", "2024-01-01 00:00:00.001"),
        ("(SELECT CAST(x AS timestamp) FROM (VALUES ('2024-01-05 10:00:00+02')) v(x))", "2024-01-05 10:00:00"),
        ("(SELECT CAST(x AS time) FROM (VALUES ('080000'), (NULL)) v(x) WHERE x IS NOT NULL)", "08:00:00"),
    ],
)
def test_values(session: Session, value: str, wanted: str) -> None:
    """A zone is left out of a timestamp, and a fraction is rounded."""
    assert rows(session, f"SELECT ({value})::text AS v") == [{"v": wanted}]


def test_no_time(session: Session) -> None:
    """A column's text that is no time is an error in plain words."""
    with pytest.raises(SqlError, match=r"^'08' must have the form of a time, as in '08:30:00'$"):
        ask(session, "SELECT CAST(x AS time) FROM (VALUES ('08'), ('09')) v(x)")


@pytest.mark.parametrize(
    "sql", ["SELECT timestamp '2024-01-01 08:00:00'", "SELECT '2024-01-01'::timestamp", "SELECT o::time FROM t"]
)
def test_other_texts_stay(sql: str) -> None:
    """A usual text, and a value of unknown type, stay."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))
