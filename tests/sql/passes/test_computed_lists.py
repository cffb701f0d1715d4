"""An item of a list that a row decides has the value of its own row."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows

ROWS = "(VALUES (1, NULL), (2, 5), (3, 1)) v(id, x)"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("1 NOT IN (CASE WHEN id > 2 THEN 2 END, 3)", [None, None, True]),
        ("NOT 1 IN (3, CASE WHEN id > 1 THEN 2 END)", [None, True, True]),
        ("id + 0 IN (CASE WHEN id > 2 THEN 3 ELSE id END, 8)", [True, True, True]),
        ("id IN (CASE id WHEN 2 THEN 2 ELSE 0 END, 8, 9, 10, 11)", [False, True, False]),
        ("1 = ANY (ARRAY[coalesce(x, 1), 7])", [True, False, True]),
        ("(x > 1) IN (x > 0 AND id > 2, x > 9 OR id > 1)", [None, True, False]),
        ("2 IN (nullif(id, 3), 7)", [False, True, None]),
        ("7 IN (id, 7)", [True, True, True]),
    ],
)
def test_values(session: Session, value: str, wanted: list[bool | None]) -> None:
    """Each row has PostgreSQL's value."""
    assert [row["r"] for row in rows(session, f"SELECT {value} AS r FROM {ROWS} ORDER BY id")] == wanted


def test_a_call_is_not_asked_twice(session: Session) -> None:
    """A call before such a list is refused, and a call in the list is not."""
    assert ask(session, f"SELECT 'a' IN ('b', CASE WHEN id > 1 THEN ai_gen('x') END) AS r FROM {ROWS}").calls == 1
    with pytest.raises(UnsupportedError, match=r"the list at .* computed items beside the answer of a model: write"):
        ask(session, f"SELECT ai_gen('x') IN ('b', CASE WHEN id > 1 THEN 'c' END) FROM {ROWS}")
