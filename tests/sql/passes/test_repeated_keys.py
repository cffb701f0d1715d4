"""A key of ORDER BY that comes twice counts once."""

import pytest

from flightllm.session.session import Session
from tests.databases import rows


@pytest.mark.parametrize(
    "keys",
    ["flag, 1, 2", "flag, flag DESC, id", "1, flag, id", "flag, f, id", "flag, people.flag IS NULL, id, id DESC"],
)
def test_distinct_on(session: Session, keys: str) -> None:
    """The first row of each group is that of the different keys."""
    sql = f"SELECT DISTINCT ON (flag) flag AS f, id FROM people WHERE flag IS NOT NULL ORDER BY {keys}"
    assert rows(session, sql) == [{"f": False, "id": 2}, {"f": True, "id": 1}]


def test_keys_of_rows(session: Session) -> None:
    """The keys of DISTINCT ON can repeat, and can be numbers."""
    sql = "SELECT DISTINCT ON (1, flag) flag, id FROM people WHERE flag ORDER BY flag, id"
    assert rows(session, sql) == [{"flag": True, "id": 1}]


def test_aggregates(session: Session) -> None:
    """An aggregate takes a key twice, too."""
    sql = "SELECT array_agg(id ORDER BY score DESC, score, id) AS ids FROM people WHERE flag"
    assert rows(session, sql) == [{"ids": [4, 7, 1, 8]}]
