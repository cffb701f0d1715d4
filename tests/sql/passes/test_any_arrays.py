"""A NULL in an array makes a comparison with ANY of its values NULL."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


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
    """An array of a column, and that of a parameter, are read as well."""
    arrays = "(VALUES (1, make_array(1, NULL)), (2, make_array(5)), (3, NULL)) v(id, l)"
    found = rows(session, f"SELECT id, 3 < ANY (l) AS r FROM {arrays} ORDER BY id")
    assert [row["r"] for row in found] == [None, True, None]
