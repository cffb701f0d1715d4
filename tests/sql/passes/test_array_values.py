"""Arrays have PostgreSQL's values."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("""'{a,"b c",NULL,"NULL","\\\\"}'::text[]""", ["a", "b c", None, "NULL", "\\"]),
        ("'{1, 2,NULL}'::int[]", [1, 2, None]),
        ("CAST('{}' AS int[])", []),
        ("ARRAY[1] || NULL", [1]),
        ("NULL || ARRAY[1]", [1]),
        ("array_length(CAST('{}' AS int[]), 1)", None),
        ("array_remove(ARRAY[3, 1, 3], 3)", [1]),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A text is read as an array, NULL adds nothing, and all equal elements are removed."""
    assert ask(session, f"SELECT {value} AS v").table.to_pylist() == [{"v": wanted}]


@pytest.mark.parametrize("text", ["'a,b'", "'{a,}'", "'{{1},{2}}'", "'{a b,\"c}'", "'{a}' || ''"])
def test_refused(session: Session, text: str) -> None:
    """A text of another form is refused with what to write instead."""
    with pytest.raises(UnsupportedError, match=r"write ARRAY\["):
        ask(session, f"SELECT CAST({text} AS text[])")
