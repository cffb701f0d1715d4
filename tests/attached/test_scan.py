"""The SELECT that a scan sends, as EXPLAIN shows it, with the limit of the query."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import explained, open_database, rows
from tests.sources import sqlite_file


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a file attached as `s`."""
    folder: Path = tmp_path_factory.mktemp("data")
    database = open_database(folder / "data")
    session = database.session()
    session.update(f"ATTACH '{sqlite_file(folder / 'x.sqlite')}' AS s")
    session.update("CREATE TABLE mine AS SELECT 1 AS id")
    yield session
    database.close()


ID = 'SELECT t."id" AS "c0" FROM "main"."people" AS t'


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("SELECT id FROM s.people", ID),
        ("SELECT id FROM s.people LIMIT 2", f"{ID} LIMIT 2"),
        ("SELECT id FROM s.people WHERE id > 1 LIMIT 2 OFFSET 1", f'{ID} WHERE t."id" > 1 LIMIT 3'),
        (
            "SELECT id FROM s.people WHERE id > 1 OR id IS NULL LIMIT 2",
            f'{ID} WHERE (t."id" > 1 OR (t."id" IS NULL)) LIMIT 2',
        ),
        ("SELECT id FROM s.people WHERE id % 2 = 1 LIMIT 2", ID),
        ("SELECT id FROM s.people ORDER BY id LIMIT 2", ID),
        ("SELECT count(*) FROM s.people LIMIT 2", 'SELECT 1 FROM "main"."people" AS t'),
        (
            "SELECT id FROM s.people WHERE id IN (SELECT id FROM mine) LIMIT 2",
            f'{ID} WHERE t."id" IN (the keys of the join)',
        ),
        (
            "SELECT id FROM s.people WHERE name = 'Ann' LIMIT 2",
            """SELECT t."id" AS "c0", t."name" AS "c1" FROM "main"."people" AS t WHERE t."name" = 'Ann'""",
        ),
        ("SELECT id, ai_filter('Is it good?', id::text) AS a FROM s.people LIMIT 2", f"{ID} LIMIT 2"),
        ("SELECT id FROM s.people WHERE ai_filter('Is it good?', id::text) LIMIT 2", ID),
    ],
)
def test_sent(session: Session, sql: str, sent: str) -> None:
    """Columns, conditions and limits go out where the source applies them as this server does."""
    lines = explained(session, sql)
    assert lines["sent to s"] == sent
    assert all("sent to" not in title or title == "sent to s" for title in lines)


def test_limits(session: Session) -> None:
    """A limit that went out gives as many rows as one that stayed here."""
    assert len(rows(session, "SELECT id FROM s.people LIMIT 3")) == 3
    assert rows(session, "SELECT id FROM s.people ORDER BY id LIMIT 2 OFFSET 1") == [{"id": 2}, {"id": 3}]
    assert len(rows(session, "SELECT id FROM s.people WHERE id > 1 LIMIT 2 OFFSET 1")) == 2
    assert rows(session, "SELECT a.id FROM s.people a JOIN s.people b USING (id) WHERE b.id = 4 LIMIT 1") == [{"id": 4}]


def test_constant_conditions(session: Session) -> None:
    """A condition without a column keeps all rows or none."""
    for condition, count in (("EXISTS (SELECT 1 FROM s.people)", 4), ("1 = 0", 0), ("NULL", 0), ("id = id", 4)):
        assert rows(session, f"SELECT count(*) AS n FROM s.people WHERE {condition}") == [{"n": count}], condition
        found = rows(session, f"SELECT 1 AS one FROM s.people WHERE {condition} AND score IS NOT NULL")
        assert len(found) == min(count, 3), condition
