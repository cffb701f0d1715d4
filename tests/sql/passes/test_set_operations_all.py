"""INTERSECT ALL and EXCEPT ALL count equal rows as PostgreSQL does."""

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows

LEFT = "SELECT x FROM (VALUES (1), (1), (2), (2), (2), (NULL), (NULL)) a(x)"
RIGHT = "SELECT y FROM (VALUES (1), (2), (2), (NULL), (3)) b(y)"


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session over the small tables."""
    named = "SELECT id, name FROM people"
    session.update(f"CREATE TABLE more AS {named} UNION ALL {named} WHERE id < 3")
    session.update(f"CREATE TABLE brief AS {named}")
    session.update("CREATE TABLE names AS SELECT name, note FROM people")
    return session


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"{LEFT} EXCEPT ALL {RIGHT}", [(1,), (2,), (None,)]),
        (f"{LEFT} INTERSECT ALL {RIGHT}", [(1,), (2,), (2,), (None,)]),
        (f"{RIGHT} EXCEPT ALL {LEFT}", [(3,)]),
        ("VALUES (1), (1) EXCEPT ALL VALUES (1)", [(1,)]),
        ("SELECT x FROM (VALUES (1),(1)) a(x) EXCEPT ALL SELECT y FROM (VALUES (1)) b(y)", [(1,)]),
        (f"{LEFT} EXCEPT ALL ({RIGHT} LIMIT 0)", [(1,), (1,), (2,), (2,), (2,), (None,), (None,)]),
        (f"({LEFT} EXCEPT ALL {RIGHT}) EXCEPT ALL SELECT 1", [(2,), (None,)]),
        (f"{LEFT} EXCEPT ALL {RIGHT} EXCEPT ALL SELECT 1", [(2,), (None,)]),
        (f"{LEFT} EXCEPT ALL {RIGHT} INTERSECT ALL SELECT 1", [(1,), (2,), (2,), (2,), (None,), (None,)]),
        (f"SELECT 7 UNION ALL ({LEFT} EXCEPT ALL {RIGHT})", [(1,), (2,), (7,), (None,)]),
        (f"SELECT x + 1 AS z FROM ({LEFT} EXCEPT ALL {RIGHT}) q WHERE x > 1", [(3,)]),
        (f"SELECT 1 WHERE 2 IN ({LEFT} EXCEPT ALL {RIGHT})", [(1,)]),
        (f"WITH q AS ({LEFT} INTERSECT ALL {RIGHT}) SELECT count(*) FROM q", [(4,)]),
        ("SELECT * FROM more EXCEPT ALL SELECT id, name FROM people", [(1, "Ann"), (2, "Bob")]),
        ("SELECT m.* FROM more m EXCEPT ALL SELECT id, name FROM people", [(1, "Ann"), (2, "Bob")]),
        ("SELECT * EXCLUDE (name) FROM more EXCEPT ALL SELECT id FROM people", [(1,), (2,)]),
        (
            "WITH q AS (SELECT * FROM more) SELECT * FROM q EXCEPT ALL SELECT id, name FROM people",
            [(1, "Ann"), (2, "Bob")],
        ),
        ("SELECT count(*), id = 1 FROM more GROUP BY id EXCEPT ALL SELECT 2, false", [(1, False)] * 7 + [(2, True)]),
    ],
)
def test_rows(session: Session, sql: str, wanted: list[tuple[object, ...]]) -> None:
    """The rows are those of PostgreSQL."""
    found = [tuple(row.values()) for row in _values(session, sql)]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_names_and_order(session: Session) -> None:
    """Columns keep their names, and ORDER BY and LIMIT apply to the whole."""
    found = ask(session, f"{LEFT} INTERSECT ALL {RIGHT} ORDER BY x DESC NULLS LAST LIMIT 3")
    assert found.rows == [{"x": 2}, {"x": 2}, {"x": 1}]
    assert ask(session, "SELECT 1 + 1, count(*) EXCEPT ALL SELECT 1, 1").table.schema.names == ["1 + 1", "count(*)"]
    assert ask(session, "SELECT 1, 1 EXCEPT ALL SELECT 1, 2").table.schema.names == ["1", "1"]


def test_joined_stars(session: Session) -> None:
    """A star over a join with USING has the columns of both tables, and those of USING once."""
    joined = "SELECT * FROM more JOIN names USING (name)"
    assert len(_values(session, f"{joined} EXCEPT ALL SELECT name, id, note FROM more JOIN names USING (name)")) == 0


def test_changes_of_rows(session: Session) -> None:
    """DELETE, INSERT, CREATE TABLE AS and views count equal rows, too."""
    twice = "SELECT id FROM more EXCEPT ALL SELECT id FROM people"
    session.update(f"CREATE OR REPLACE TABLE made AS {twice}")
    session.update(f"CREATE OR REPLACE VIEW seen AS {twice}")
    session.update(f"INSERT INTO made {twice}")
    assert sorted(row["id"] for row in rows(session, "SELECT id FROM made")) == [1, 1, 2, 2]
    assert sorted(row["id"] for row in rows(session, "SELECT id FROM seen")) == [1, 2]
    session.update("CREATE OR REPLACE TABLE left_over AS SELECT id FROM people")
    session.update(f"DELETE FROM left_over WHERE id IN ({twice})")
    assert len(rows(session, "SELECT id FROM left_over")) == 7


def test_beside_calls(session: Session) -> None:
    """Answers are counted as other values are."""
    mood = "SELECT ai_sentiment(note) AS mood FROM people"
    assert ask(session, f"{mood} EXCEPT ALL {mood}").rows == []
    assert len(ask(session, f"{mood} INTERSECT ALL {mood}").rows) == 9


def test_unknown_names_are_refused(session: Session) -> None:
    """A star over a table function has unknown names; the place is that of the client's text."""
    with pytest.raises(UnsupportedError, match=r"EXCEPT ALL after the query at 2:16 needs .* names in place of \*"):
        ask(
            session,
            "SELECT x IS DISTINCT FROM 1 AND true FROM (\n SELECT * FROM found(3) EXCEPT ALL SELECT 1) q(x)",
        )


def _values(session: Session, sql: str) -> list[dict[str, object]]:
    table = ask(session, sql).table
    return table.rename_columns([str(number) for number in range(table.num_columns)]).to_pylist()  # type: ignore[no-any-return]
