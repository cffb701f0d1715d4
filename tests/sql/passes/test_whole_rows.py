"""`count(t.*)` is refused where an outer join can lack a row of `t`."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    ("tables", "count"),
    [
        ("people p", 9),
        ("people p LEFT JOIN likes l ON l.person_id = p.id", 11),
        ("likes l RIGHT JOIN people p ON l.person_id = p.id", 11),
        ("people p JOIN likes l ON l.person_id = p.id", 6),
    ],
)
def test_rows_are_counted(session: Session, tables: str, count: int) -> None:
    """Each row counts where the table has one."""
    assert rows(session, f"SELECT count(p.*) AS n FROM {tables}") == [{"n": count}]


@pytest.mark.parametrize(
    "tables",
    [
        "likes l LEFT JOIN people p ON l.person_id = p.id",
        "people p RIGHT JOIN likes l ON l.person_id = p.id",
        "people p FULL JOIN likes l ON l.person_id = p.id",
        "likes a CROSS JOIN (likes l LEFT JOIN people p ON l.person_id = p.id)",
    ],
)
def test_lacking_rows_are_refused(session: Session, tables: str) -> None:
    """The error says where, and what to write."""
    with pytest.raises(UnsupportedError, match=r"count\(p\.\*\) at 1:8 .*count a column of p that has no NULL"):
        rows(session, f"SELECT count(p.*) AS n FROM {tables}")


def test_different_rows_are_refused(session: Session) -> None:
    """DISTINCT over rows is refused, too."""
    with pytest.raises(UnsupportedError, match="DISTINCT"):
        rows(session, "SELECT count(DISTINCT p.*) AS n FROM people p")


def test_order_by_is_read(session: Session) -> None:
    """ORDER BY belongs to the query, and counts the same rows."""
    with pytest.raises(UnsupportedError, match=r"count\(p\.\*\)"):
        rows(
            session,
            "SELECT l.thing FROM likes l LEFT JOIN people p ON l.person_id = p.id GROUP BY 1 ORDER BY count(p.*)",
        )
