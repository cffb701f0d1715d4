"""A NULL in an array makes a comparison with ANY of its values NULL."""

import pyarrow as pa
import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.any_arrays import any_arrays
from flightllm.sql.tree import parse
from tests.databases import ask, rows


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("3 = ANY (ARRAY[1, NULL])", None),
        ("1 = ANY (ARRAY[1, NULL])", True),
        ("3 < ANY (ARRAY[1, NULL])", None),
        ("3 <> SOME (ARRAY[3, NULL])", None),
        ("3 > ANY (ARRAY[1, NULL])", True),
        ("3 > ANY (ARRAY[4, 5])", False),
        ("3 <> ALL (ARRAY[4, NULL])", None),
    ],
)
def test_values(session: Session, sql: str, value: bool | None) -> None:
    """Each comparison has PostgreSQL's value."""
    assert rows(session, f"SELECT {sql} AS found") == [{"found": value}]


def test_columns(session: Session) -> None:
    """An array of a column is read as well."""
    arrays = "(VALUES (1, make_array(1, NULL)), (2, make_array(5)), (3, NULL)) v(id, l)"
    found = rows(session, f"SELECT id, 3 < ANY (l) AS r FROM {arrays} ORDER BY id")
    assert [row["r"] for row in found] == [None, True, None]
    found = rows(session, f"SELECT id, NOT 5 = ANY (l) AS r FROM {arrays} ORDER BY id")
    assert [row["r"] for row in found] == [None, False, None]


def test_a_call_is_not_doubled() -> None:
    """An array that changes from call to call is computed once."""
    parsed = parse(ParsedText("SELECT 2 = ANY (make_array(random()))"))
    assert parsed is not None
    assert any_arrays(parsed, lambda _: {}) is parsed


@pytest.mark.parametrize(("sql", "value"), [("3 < ANY (?)", None), ("1 <> ANY (?)", None), ("1 = ANY (?)", True)])
def test_parameters(session: Session, sql: str, value: bool | None) -> None:
    """A parameter has one place in the client's text, and several in that of DataFusion."""
    given = pa.RecordBatch.from_pydict({"l": pa.array([[1, None]], pa.list_(pa.int64()))})
    assert ask(session, f"SELECT {sql} AS found", given).rows == [{"found": value}]
