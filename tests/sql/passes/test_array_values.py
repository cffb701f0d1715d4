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
        ("'{{1,2}}'::int[][]", [[1, 2]]),
        ("CAST('{{a,NULL},{\"b c\",d}}' AS text[][])", [["a", None], ["b c", "d"]]),
        ("'{}'::int[][]", []),
        ("'{a b, c\\,d}'::text[]", ["a b", "c,d"]),
        ("ARRAY[1] || NULL", [1]),
        ("NULL || ARRAY[1]", [1]),
        ("array_length(CAST('{}' AS int[]), 1)", None),
        ("array_remove(ARRAY[3, 1, 3], 3)", [1]),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A text is read as an array, NULL adds nothing, and all equal elements are removed."""
    assert ask(session, f"SELECT {value} AS v").table.to_pylist() == [{"v": wanted}]


def test_deep_arrays(session: Session) -> None:
    """A text beside arrays of arrays is compared as one of them."""
    session.update("CREATE TABLE deep (k int, a int[][])")
    session.update("INSERT INTO deep VALUES (1, '{{1,2},{3,4}}'), (2, '{{1,2},{3,5}}')")
    found = ask(session, "SELECT k FROM deep WHERE a < '{{1,2},{3,5}}' ORDER BY k").table
    session.update("DROP TABLE deep")
    assert found.to_pylist() == [{"k": 1}]


@pytest.mark.parametrize("text", ["'a,b'", "'{a,}'", "'{{1},{2}}'", "'{a b,\"c}'", "'{a}' || ''"])
def test_refused(session: Session, text: str) -> None:
    """A text of another form is refused with what to write instead."""
    with pytest.raises(UnsupportedError, match=r"write ARRAY\["):
        ask(session, f"SELECT CAST({text} AS text[])")
