"""`lag` and `lead` have PostgreSQL's offsets and defaults."""

import pyarrow as pa
import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import rows

_COLUMNS = {"id": pa.int64(), "score": pa.float64(), "name": pa.string()}


def test_fractions(session: Session) -> None:
    """A fraction beside whole numbers stays one."""
    sql = "SELECT lag(id, 1, 0.5) OVER (ORDER BY id) AS a, lead(id, 8, -1.25) OVER (ORDER BY id) AS b FROM people"
    found = rows(session, f"{sql} ORDER BY id")
    assert [(row["a"], row["b"]) for row in found[:2]] == [(0.5, 9), (1, -1.25)]


def test_no_offset(session: Session) -> None:
    """The offset NULL gives NULL, also with a default."""
    sql = "SELECT lag(id, NULL) OVER (ORDER BY id) AS a, lead(id, NULL::int, 7) OVER (ORDER BY id) AS b FROM people"
    assert {(row["a"], row["b"]) for row in rows(session, sql)} == {(None, None)}


@pytest.mark.parametrize("call", ["lag(id, 1, 0)", "lag(score, 1, 0.5)", "lag(name, 1, 'none')", "lead(id)"])
def test_other_texts_stay(call: str) -> None:
    """A default that fits stays as it is written."""
    text = ParsedText(f"SELECT {call} OVER (ORDER BY id) FROM people")
    assert not list(edits(text, lambda _: _COLUMNS, lambda _: False))
