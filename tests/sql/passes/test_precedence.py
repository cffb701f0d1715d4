"""Operators bind as in PostgreSQL, whatever follows them, and `^` is a power."""

import random

import pytest

from flightllm.session.session import Session
from tests.databases import ask, rows
from tests.postgres import binaries, cluster

CASES = (
    ("true IS DISTINCT FROM true AND false", False),
    ("false AND false IS DISTINCT FROM true", False),
    ("true IS NOT DISTINCT FROM true OR false", True),
    ("NOT true IS DISTINCT FROM true AND false", False),
    ("false IS DISTINCT FROM true = false", False),
    ("1 IS DISTINCT FROM 2 AND NULL IS NOT DISTINCT FROM NULL AND true", True),
    ("CASE WHEN true IS DISTINCT FROM true OR true THEN true END", True),
    ("'a' LIKE 'b' IS DISTINCT FROM false OR true", True),
    ("(SELECT true IS DISTINCT FROM true AND false)", False),
    ("'a' LIKE 'b' = false", True),
    ("true = 3 IN (1, 2, 3)", True),
    ("true = 2 BETWEEN 1 AND 3", True),
    ("-2 ^ 2 = 4 AND 2 ^ 3 ^ 2 = 64 AND 2 * 3 ^ 2 = 18", True),
    ("5 # 3 = 6 AND 6 | 1 & 3 = 3 AND ~5 = -6", True),
    ("1 + 2 || 'a' = '3a'", True),
)
SEEDS, EXPRESSIONS = 3, 150


@pytest.mark.parametrize(("sql", "value"), CASES)
def test_values(session: Session, sql: str, value: bool) -> None:
    """Each expression has PostgreSQL's value, in a SELECT, in a condition, in a subquery and beside a WITH query."""
    assert rows(session, f"SELECT {sql} AS found") == [{"found": value}]
    assert len(rows(session, f"SELECT 1 AS x WHERE {sql}")) == value
    assert len(rows(session, f"WITH q AS (SELECT 1 AS x WHERE {sql}) SELECT * FROM (SELECT x FROM q) r")) == value


def test_joins_on_two_keys(session: Session) -> None:
    """A join on keys with NULL takes several predicates in a row, also 60 of them."""
    on = "a.name IS NOT DISTINCT FROM b.name AND a.note IS NOT DISTINCT FROM b.note"
    assert rows(session, f"SELECT count(*) AS n FROM people a JOIN people b ON {on}") == [{"n": 11}]
    many = " AND ".join(["a.id IS NOT DISTINCT FROM b.id"] * 60)
    assert rows(session, f"SELECT count(*) AS n FROM people a JOIN people b ON {many}") == [{"n": 9}]


def test_beside_a_call(session: Session) -> None:
    """The call decides about the rows that the predicate keeps."""
    sql = "SELECT id FROM people WHERE name IS NOT DISTINCT FROM 'Ann' AND ai_filter('Is it good?', note)"
    found = ask(session, sql)
    assert found.calls == 2  # two different notes
    assert {row["id"] for row in found.rows} <= {1, 7, 8}


def test_changes_of_rows(session: Session) -> None:
    """UPDATE, DELETE, MERGE, INSERT, CREATE TABLE AS and views read the condition in the same way."""
    condition = "name IS NOT DISTINCT FROM NULL AND id < 5"
    session.update("CREATE OR REPLACE TABLE c AS SELECT id, name FROM people")
    session.update(f"CREATE OR REPLACE TABLE made AS SELECT id FROM c WHERE {condition}")
    session.update(f"CREATE OR REPLACE VIEW seen AS SELECT id FROM c WHERE {condition}")
    session.update(f"INSERT INTO made SELECT id + 100 FROM c WHERE {condition}")
    assert [row["id"] for row in rows(session, "SELECT id FROM made ORDER BY id")] == [3, 103]
    assert rows(session, "SELECT id FROM seen") == [{"id": 3}]
    session.update(f"UPDATE c SET name = 'none' WHERE {condition}")
    assert rows(session, "SELECT count(*) AS n FROM c WHERE name = 'none'") == [{"n": 1}]
    session.update("MERGE INTO c USING made m ON c.id IS NOT DISTINCT FROM m.id AND m.id < 9 WHEN MATCHED THEN DELETE")
    session.update("DELETE FROM c WHERE name IS NOT DISTINCT FROM 'Ann' AND id > 1")
    assert [row["id"] for row in rows(session, "SELECT id FROM c ORDER BY id")] == [1, 2, 4, 5, 6, 9]


def test_column_names_stay(session: Session) -> None:
    """A column without an alias has the name that the client wrote."""
    assert ask(session, "SELECT 1 IS DISTINCT FROM 2 AND true").table.schema.names == ["1 IS DISTINCT FROM 2 AND true"]


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")
def test_random_expressions(session: Session) -> None:
    """Expressions without parentheses have the values that PostgreSQL computes."""
    draw = random.Random(7)  # noqa: S311 - no cryptography
    made = [_expression(draw) for _ in range(SEEDS * EXPRESSIONS)]
    with cluster() as server:
        script = "\n".join(f"\\echo ==\nSELECT {sql};" for sql in made)
        theirs = [part.strip() for part in server._ask(script).split("==\n")[1:]]
    compared = 0
    for sql, wanted in zip(made, theirs, strict=True):
        if wanted:  # PostgreSQL refuses some, such as two predicates in a row
            compared += 1
            (row,) = rows(session, f"SELECT {sql} AS found")
            assert {True: "t", False: "f", None: "NULL"}[row["found"]] == wanted, sql
    assert compared > EXPRESSIONS


def _expression(draw: random.Random) -> str:
    parts = []
    for number in range(draw.randint(2, 6)):
        if number:
            parts.append(draw.choice(["AND", "OR", "=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]))
        parts += ["NOT"] * (draw.random() < 0.2)
        parts.append(draw.choice(["true", "false", "true", "false", "NULL::boolean", "true"]))
    return " ".join(parts)
