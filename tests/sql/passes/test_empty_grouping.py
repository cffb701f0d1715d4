"""GROUP BY () is one group of all rows, also without rows."""

from flightllm.session.session import Session
from tests.databases import rows


def test_one_group(session: Session) -> None:
    """The query has one row, with and without rows to group."""
    assert rows(session, "SELECT count(*) AS n FROM people GROUP BY ()") == [{"n": 9}]
    assert rows(session, "SELECT 1 AS n FROM people WHERE id < 0 GROUP BY ()") == [{"n": 1}]
    assert rows(session, "SELECT count(*) AS n FROM people GROUP BY () HAVING count(*) > 9") == []
