"""ORDER BY … DESC of answers puts NULL last, wherever the statement names the call."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import rows, small_database

SCORE = "ai_score('How nice?', note)"
LAST = (
    f"SELECT id, {SCORE} AS s FROM people ORDER BY {SCORE} DESC LIMIT 3",
    f"SELECT id, {SCORE} AS s FROM people ORDER BY s DESC LIMIT 3",
    f"SELECT id, {SCORE} AS s FROM people ORDER BY 2 DESC LIMIT 3",
    f"SELECT id, s FROM (SELECT id, {SCORE} AS s FROM people) AS q ORDER BY s DESC LIMIT 3",
    f"SELECT id, s AS best FROM (SELECT id, {SCORE} AS s FROM people) AS q ORDER BY q.s DESC LIMIT 3",
    f"WITH q AS (SELECT id, {SCORE} AS s FROM people) SELECT id, s FROM q ORDER BY s DESC, id LIMIT 3",
    f"SELECT * FROM (SELECT * FROM (SELECT id, {SCORE} AS s FROM people) AS a) AS b ORDER BY s DESC LIMIT 3",
    f"SELECT id, r FROM (SELECT id, s AS r FROM (SELECT id, {SCORE} AS s FROM people) a) b ORDER BY r DESC LIMIT 3",
    f"SELECT i AS id, r FROM (SELECT id, {SCORE} FROM people) AS b (i, r) ORDER BY r DESC LIMIT 3",
    f"WITH q (i, r) AS (SELECT id, {SCORE} FROM people) SELECT i AS id, r FROM q ORDER BY 2 DESC LIMIT 3",
    f"SELECT id, {SCORE} AS s FROM people UNION ALL SELECT 1, 0.5 ORDER BY s DESC LIMIT 3",
    f"SELECT a.id FROM likes JOIN (SELECT id, {SCORE} AS s FROM people) a ON true ORDER BY a.s DESC LIMIT 3",
    "SELECT id, s FROM scored ORDER BY s DESC LIMIT 3",
    "SELECT id, r AS best FROM renamed ORDER BY best DESC LIMIT 3",
    f"SELECT id, s FROM (SELECT *, {SCORE} AS s FROM people) AS q ORDER BY s DESC LIMIT 3",
    f"WITH p AS (SELECT 1), q AS (SELECT id, {SCORE} AS s FROM people) SELECT q.* FROM q, p ORDER BY q.s DESC LIMIT 3",
    f"SELECT id, max({SCORE}) OVER (PARTITION BY id ORDER BY id DESC) FROM people ORDER BY 2 DESC LIMIT 3",
    f"SELECT id FROM people ORDER BY max({SCORE}) OVER (PARTITION BY id ORDER BY id DESC) DESC LIMIT 3",
    f"SELECT id, s FROM ((SELECT id, {SCORE} AS s FROM people)) AS q ORDER BY s DESC LIMIT 3",
)
FIRST = (
    f"SELECT id, {SCORE} AS s FROM people ORDER BY s DESC NULLS FIRST LIMIT 3",
    f"SELECT id, note AS s FROM (SELECT id, note, {SCORE} AS s FROM people) AS q ORDER BY s DESC LIMIT 3",
    f"SELECT id, note FROM (SELECT id, note, {SCORE} AS s FROM people) AS q ORDER BY note DESC LIMIT 3",
    f"WITH c AS (SELECT {SCORE} AS note FROM people) SELECT id, note FROM people ORDER BY note DESC LIMIT 3",
    f"SELECT p.id FROM people p JOIN (SELECT id, {SCORE} AS note FROM people) a USING (id) ORDER BY p.note DESC",
    f"SELECT id FROM people WHERE id IN (SELECT id FROM (SELECT id, {SCORE} AS note FROM people)) ORDER BY note DESC",
    "SELECT id, s FROM scored ORDER BY s + 1 DESC LIMIT 3",
    (
        f"SELECT p.id FROM (WITH people AS (SELECT {SCORE.replace('note', 'thing')} AS note FROM likes) SELECT 1 AS x"
        " FROM people) q, people p ORDER BY note DESC"
    ),
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the small tables, where two people have no note."""
    database = small_database(Path(tmp_path_factory.mktemp("data")))
    session = database.session()
    session.update(f"CREATE VIEW scored AS SELECT id, {SCORE} AS s, note FROM people")
    session.update("CREATE VIEW renamed AS SELECT id, s AS r FROM scored")
    yield session
    database.close()


@pytest.mark.parametrize("sql", LAST)
def test_answers_put_null_last(session: Session, sql: str) -> None:
    """Rows without an answer do not rank best."""
    assert {4, 6}.isdisjoint(row["id"] for row in rows(session, sql))


@pytest.mark.parametrize("sql", FIRST)
def test_others_keep_the_rule_of_sql(session: Session, sql: str) -> None:
    """A key that is no answer, or that gives a place for NULL, has NULL where SQL puts it."""
    assert {4, 6} <= {row["id"] for row in rows(session, sql)}
