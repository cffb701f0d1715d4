"""The edits between a client's text and the text of a changed tree leave all other parts as they are."""

import pytest

from flightllm.sql.alignment import replacements
from flightllm.sql.parsed_text import ParsedText


def applied(sql: str, printed: str) -> tuple[str, int]:
    """Return a text after the edits, and their number."""
    edits = sorted(replacements(ParsedText(sql), ParsedText(printed)))
    for start, end, text in reversed(edits):
        sql = sql[:start] + text + sql[end:]
    return sql, len(edits)


@pytest.mark.parametrize(
    ("sql", "printed", "wanted", "count"),
    [
        ("select a /* x */ from t -- end", "SELECT a FROM t", "select a /* x */ from t -- end", 0),
        ("select a != 1", "SELECT a <> 1", "select a != 1", 0),
        ("select a  x, E'a' from t", "SELECT (a) AS x, 'a' FROM t", "select (a) AS  x, E'a' from t", 2),
        ("select a -- 1\n+ b, c", "SELECT f(a, b), c", "select f(a -- 1\n, b), c", 3),
        ("a", "b a c", "b a c", 2),
        ("a b", "b", " b", 1),
        ("x", "y", "y", 1),
    ],
)
def test_edits(sql: str, printed: str, wanted: str, count: int) -> None:
    """Comments, spaces and the spelling of equal tokens stay."""
    assert applied(sql, printed) == (wanted, count)


def test_many_tokens_become_one_edit() -> None:
    """A long part with changes at both ends is one edit; equal ends stay."""
    middle = ", ".join(["a"] * 2_000)
    found, count = applied(f"SELECT /* x */ 1, {middle}, 2 FROM t -- y", f"SELECT 3, {middle}, 4 FROM t")
    assert found == f"SELECT /* x */ 3, {middle}, 4 FROM t -- y"
    assert count == 1
