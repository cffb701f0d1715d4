"""The point of a regular expression matches a newline."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows

TEXT = "('a' || chr(10) || 'b')"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (f"{TEXT} ~ 'a.b'", True),
        (f"{TEXT} !~* 'A.B'", False),
        (f"{TEXT} ~ '^b'", False),
        (f"{TEXT} ~ 'a$'", False),
        (rf"{TEXT} ~ 'a\.b'", False),
        (f"{TEXT} ~ 'a[.]b'", False),
        (f"{TEXT} ~ E'[]x].|a.\\x62'", True),
        (f"{TEXT} ~ ('a.' || 'b')", True),
        (f"regexp_replace({TEXT}, '.', 'x', 'g')", "xxx"),
        (f"regexp_replace({TEXT}, '.$', 'x', 'm')", "x\nb"),
        (f"regexp_match({TEXT}, 'a(.)b')", ["\n"]),
        (f"regexp_like({TEXT}, 'a.b')", True),
        (f"regexp_count({TEXT}, '.')", 3),
        (r"regexp_replace('abc', '(b)', '[\&]')", "a[b]c"),
        ("regexp_replace('abc', '(b)', '$1')", "a$1c"),
        (r"regexp_replace('abc', '(b)', '\\1')", r"a\1c"),
        (r"regexp_replace('abc', '(b)', '\1' || '\&$')", "abb$c"),
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A point that nothing hides matches a newline, and the signs of the ends match only at the ends."""
    assert rows(session, f"SELECT {value} AS r") == [{"r": wanted}]


def test_changes_of_rows(session: Session) -> None:
    """A literal stays a literal, so DELETE takes it."""
    session.update(f"CREATE TABLE noted AS SELECT {TEXT} AS t")
    assert session.update("DELETE FROM noted WHERE t ~ 'a.b'") == 1


@pytest.mark.parametrize("pattern", ["(x)?b", "(a)|(b)", "((a)|b)c", "(a){0,1}b"])
def test_groups_without_a_match(session: Session, pattern: str) -> None:
    """A group that can have no match would be NULL in PostgreSQL, so the error says what to write."""
    with pytest.raises(UnsupportedError, match=r"regexp_match at 1:8 .* write \(a\|b\)"):
        rows(session, f"SELECT regexp_match('abc', '{pattern}')")
    assert rows(session, "SELECT regexp_match('abc', '(a|b)(c*)[?]?') AS r") == [{"r": ["a", ""]}]
