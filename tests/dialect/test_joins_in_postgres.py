"""Joins with USING and NATURAL over tables, views and WITH queries have the rows that PostgreSQL gives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.postgres import binaries, cluster

SETUP = (
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, 'c')) AS v(id, x)",
    "CREATE TABLE o AS SELECT * FROM (VALUES (2, 'l'), (6, 'm'), (9, 'n')) AS v(id, w)",
    "CREATE TABLE k AS SELECT * FROM (VALUES (3, 3), (4, 6), (5, 7)) AS v(y, id)",
    "CREATE TABLE m AS SELECT * FROM (VALUES (1, 'e'), (6, 'f'), (8, 'g'), (9, 'h')) AS v(id, u)",
    "CREATE VIEW seen AS SELECT id, x FROM t",
)
FORMS = (
    ("", "t a"),
    ("", "t AS a(id, x)"),
    ("", "seen a"),
    ("", "(SELECT id, x FROM t UNION SELECT 6, 'u') a"),
    ("", "((SELECT id, x FROM t) UNION SELECT 6, 'u') a"),
    ("", "((SELECT id, x FROM t)) a"),
    ("", "(WITH t AS (SELECT 6 AS id, 'n' AS x) SELECT * FROM t) a"),
    ("", "(WITH c AS (WITH t AS (SELECT 2 AS id, 'n' AS x) SELECT * FROM t) SELECT * FROM c) a"),
    ("", "(WITH t AS (SELECT 1 AS z) SELECT z FROM t) q CROSS JOIN t a"),
    ("", "(WITH o AS (SELECT 1 AS z) SELECT z FROM o) q CROSS JOIN t a"),
    ("WITH t AS (SELECT 6 AS id, 'c' AS x)", "t a"),
    ("WITH t AS (SELECT id + 1 AS id, x FROM t)", "t a"),
    ("WITH c AS (SELECT * FROM t)", "c a"),
    ("WITH c (id, x) AS (SELECT id + 4, x FROM t)", "c a"),
    ("WITH c AS (WITH t AS (SELECT 2 AS z) SELECT z AS id, 'n' AS x FROM t)", "c a"),
    ("WITH c AS (WITH o AS (SELECT 2 AS z) SELECT z FROM o)", "c CROSS JOIN t a"),
    ("WITH c AS (SELECT id, x FROM t), t AS (SELECT 7 AS id, 'later' AS x)", "c a"),
    ("WITH o AS (SELECT id + 1 AS id, w FROM o), c AS (SELECT 6 AS z)", "t a"),
    ("WITH RECURSIVE r AS (SELECT 1 AS id, 'r' AS x UNION ALL SELECT id + 1, x FROM r WHERE id < 3)", "r a"),
    ("WITH RECURSIVE t AS (SELECT 5 AS id, 'r' AS x UNION ALL SELECT id + 1, x FROM t WHERE id < 7)", "t a"),
    ("WITH RECURSIVE t(id, x) AS (SELECT 5, 'r' UNION ALL SELECT id + 1, x FROM t WHERE id < 7)", "t a"),
)
JOINS = (
    "JOIN o b USING (id)",
    "LEFT JOIN o b USING (id)",
    "RIGHT JOIN o b USING (id)",
    "FULL JOIN o b USING (id)",
    "NATURAL RIGHT JOIN o b",
    "NATURAL FULL JOIN o b",
    "RIGHT JOIN (WITH u AS (SELECT id, w FROM o WHERE id > 2) SELECT id, w FROM u) b USING (id)",
    "RIGHT JOIN (SELECT id, w FROM o WHERE id IN (WITH u AS (SELECT 9 AS id) SELECT id FROM u)) b USING (id)",
    "RIGHT JOIN o b USING (id) FULL JOIN k d USING (id)",
    "FULL JOIN o b USING (id) RIGHT JOIN k d USING (id)",
    "RIGHT JOIN o b USING (id) LEFT JOIN k d USING (id)",
    "NATURAL RIGHT JOIN o b NATURAL FULL JOIN k d",
    "FULL JOIN (o b FULL JOIN k d USING (id)) USING (id)",
    "RIGHT JOIN (o b NATURAL JOIN k d) USING (id)",
)
SELECTS = (
    "SELECT id, x, w FROM {}",
    "SELECT * FROM {}",
    "SELECT count(id), sum(id) FROM {} WHERE id > 1",
    "SELECT id FROM {} WHERE id IN (WITH u AS (SELECT 6 AS z UNION SELECT 2) SELECT z FROM u)",
    "SELECT s.id FROM (SELECT id, w FROM {}) s WHERE s.id > 2",
    "SELECT id, count(*) FROM {} GROUP BY id HAVING max(id) < 8",
)
NAMED = (
    "SELECT * FROM ({}) q",
    "SELECT q.id FROM (({})) AS q WHERE q.id > 1",
    "SELECT * FROM ({}) q JOIN m USING (id)",
    "SELECT id, u FROM ({}) q RIGHT JOIN m USING (id)",
    "SELECT * FROM m FULL JOIN ({}) q USING (id)",
    "SELECT q.x FROM ({}) q NATURAL JOIN m",
    "SELECT id, count(*) FROM ({}) q GROUP BY id HAVING max(id) > 1 ORDER BY id",
    "SELECT u FROM m WHERE EXISTS (SELECT 1 FROM ({}) q WHERE q.id = m.id)",
    "SELECT r.id FROM (({}) q FULL JOIN m USING (id)) r",
    "SELECT a, u FROM ({}) AS q(a, b, c) LEFT JOIN m ON q.a = m.id",
    "SELECT 1 FROM ({}) q",
)
"""Queries of a join in parentheses that has a name."""
NAMED_JOINS = (
    "t RIGHT JOIN o USING (id)",
    "t NATURAL FULL JOIN o",
    "t LEFT JOIN o USING (id)",
    "t FULL JOIN (VALUES (2, 'v'), (7, 'v')) v(id, w) USING (id)",
    "(t RIGHT JOIN o USING (id)) p FULL JOIN (SELECT 6 AS id) r USING (id)",
)
STATEMENTS: dict[tuple[str, str], list[str]] = {
    form: [
        f"{form[0]} {SELECTS[(number + place) % len(SELECTS)].format(f'{form[1]} {join}')}"
        for number, join in enumerate(JOINS)
        for place in (0, 1 + (number + first) % 5)
    ]
    for first, form in enumerate(FORMS)
} | {("named", join): [select.format(join) for select in NAMED] for join in NAMED_JOINS}
"""Two SELECTs for each form and join; over all forms, each SELECT meets each join; then each join with a name."""

pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def expected() -> dict[str, list[str]]:
    """Return the rows of PostgreSQL for each statement."""
    every = [statement for statements in STATEMENTS.values() for statement in statements]
    with cluster() as server:
        found = server.outcomes(";\n".join((*SETUP, "")), "", every, "k")
    assert not [sql for sql, outcome in zip(every, found, strict=True) if outcome.failed]
    return {sql: outcome.returned for sql, outcome in zip(every, found, strict=True)}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session of the same tables and the view."""
    database = open_database(Path(tmp_path_factory.mktemp("data")))
    session = database.session()
    for statement in SETUP:
        session.update(statement)
    yield session
    database.close()


@pytest.mark.parametrize("form", STATEMENTS, ids=" ".join)
def test_same_rows(session: Session, expected: dict[str, list[str]], form: tuple[str, str]) -> None:
    """Each join of a form of the left side has the rows of PostgreSQL."""
    for sql in STATEMENTS[form]:
        table = ask(session, sql).table
        rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
        found = sorted("|".join("NULL" if value is None else str(value) for value in row) for row in rows)
        assert found == expected[sql], sql
