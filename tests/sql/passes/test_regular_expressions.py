"""The point of a regular expression matches a newline."""

import pytest

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
    ],
)
def test_values(session: Session, value: str, wanted: object) -> None:
    """A point that nothing hides matches a newline, and the signs of the ends match only at the ends."""
    assert rows(session, f"SELECT {value} AS r") == [{"r": wanted}]


def test_changes_of_rows(session: Session) -> None:
    """A literal stays a literal, so DELETE takes it."""
    session.update(f"CREATE TABLE noted AS SELECT {TEXT} AS t")
    assert session.update("DELETE FROM noted WHERE t ~ 'a.b'") == 1
