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


@pytest.mark.parametrize("keys", ["flag, 1, 2, 3, id", "flag, k, 1 - 1, id", "flag, id, one, k DESC, 'a' || 'b'"])
def test_constant_keys(session: Session, keys: str) -> None:
    """Constants do not change the order; some of them are equal only after they are computed."""
    sql = "SELECT DISTINCT ON (flag) abs(-1) AS k, 1 AS one, lower('A') AS a, id FROM people WHERE flag"
    assert rows(session, f"{sql} ORDER BY {keys}") == [{"k": 1, "one": 1, "a": "a", "id": 1}]


def test_keys_of_an_outer_query(session: Session) -> None:
    """A subquery can sort by a column of the outer query, which is one of its keys already."""
    first = "SELECT DISTINCT ON (l.person_id) p.id AS i, l.thing FROM likes l ORDER BY l.person_id, 1 DESC, l.thing"
    sql = f"SELECT q.i, q.thing FROM people p, LATERAL ({first}) q WHERE p.id = 3 ORDER BY q.thing"
    assert [row["thing"] for row in rows(session, sql)] == ["cats", "cats", "rain", "snow", "tea", None]


def test_aggregates(session: Session) -> None:
    """An aggregate takes a key twice, too."""
    sql = "SELECT array_agg(id ORDER BY score DESC, score, id) AS ids FROM people WHERE flag"
    assert rows(session, sql) == [{"ids": [4, 7, 1, 8]}]
