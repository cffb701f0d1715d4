"""DuckDB files: types, schemas, and what a view in a file cannot reach."""

from decimal import Decimal
from pathlib import Path

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from tests.databases import open_database, rows
from tests.sources import duckdb_file

pytest.importorskip("duckdb")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session with a file attached as `d`."""
    (tmp_path / "secret.csv").write_text("a\nhidden\n")
    path = duckdb_file(
        tmp_path / "d.duckdb",
        """CREATE TABLE types AS SELECT 1::DECIMAL(5, 2) AS q, [1, NULL] AS l, {'a': 1} AS s, 5::HUGEINT AS h,
           'b'::ENUM('a', 'b') AS e, INTERVAL 1 DAY AS i, TIMESTAMP '2024-01-02 03:04:05' AS t,
           uuid '00000000-0000-0000-0000-000000000001' AS u, 'NaN'::DOUBLE AS f, 200::UTINYINT AS b""",
        "CREATE SCHEMA app",
        "CREATE VIEW app.v AS SELECT id, name FROM people",
        f"CREATE VIEW leak AS SELECT * FROM read_csv('{tmp_path}/secret.csv')",
        "CREATE TABLE ends AS SELECT 'infinity'::DATE AS d, 'infinity'::TIMESTAMP AS t, 1 AS ok",
    )
    database = open_database(tmp_path / "data")
    session = database.session()
    session.update(f"ATTACH '{path}' AS d (READ_ONLY)")
    return session


def test_types(session: Session) -> None:
    """A type without an equal here is text, and a nested one JSON."""
    (row,) = rows(session, "SELECT * FROM d.types")
    assert row.pop("f") != row.get("f")
    assert row.pop("t").isoformat() == "2024-01-02T03:04:05"
    assert row == {
        "q": Decimal("1.00"),
        "l": "[1,null]",
        "s": '{"a":1}',
        "h": "5",
        "e": "b",
        "i": "1 day",
        "u": "00000000-0000-0000-0000-000000000001",
        "b": 200,
    }


def test_conditions(session: Session) -> None:
    """Conditions give the rows that they give over a copy."""
    session.update("CREATE TABLE copy AS SELECT * FROM d.people")
    session.update("CREATE TABLE copied AS SELECT * FROM d.types")
    for condition in ("score >= 0", "name > 'Ann'", "name IN ('bob', 'x', 'y', 'z')", "name IS NULL", "note <> ''"):
        query = "SELECT id FROM {} WHERE " + condition + " ORDER BY id"
        assert rows(session, query.format("d.people")) == rows(session, query.format("copy")), condition
    for condition in ("f > 1", "f = 'NaN'", "f < 1", "q = 1", "t < TIMESTAMP '2025-01-01'", "b > 5"):
        query = "SELECT count(*) FROM {} WHERE " + condition
        assert rows(session, query.format("d.types")) == rows(session, query.format("copied")), condition


def test_schemas(session: Session) -> None:
    """A table of another schema has a name of three parts."""
    assert rows(session, "SELECT v.name FROM d.app.v WHERE d.app.v.id = 1") == [{"name": "Ann"}]
    assert rows(session, "SHOW TABLES FROM d.app") == [
        {"table_catalog": "flightllm", "table_schema": "d.app", "table_name": "v", "table_type": "BASE TABLE"}
    ]


def test_other_files_stay_closed(session: Session) -> None:
    """A view in the file cannot read the server's other files."""
    with pytest.raises(SqlError, match="the attached database 'd' failed: Permission Error") as raised:
        rows(session, "SELECT * FROM d.leak")
    assert "hidden" not in str(raised.value)


def test_infinity(session: Session) -> None:
    """An infinite date or time is an error, and no wrong day."""
    for column, kind in (("d", "DATE"), ("t", "TIMESTAMP")):
        with pytest.raises(SqlError, match=f"the column '{column}' has the type {kind} at its source"):
            rows(session, f"SELECT {column} FROM d.ends")
    assert rows(session, "SELECT ok FROM d.ends") == [{"ok": 1}]


def test_a_query_in_a_process_of_its_own(session: Session) -> None:
    """A query that could exceed its memory reads a copy, with the row filters and views of its user."""
    query = "SELECT id, repeat(name, id * 2) AS r FROM d.people WHERE name LIKE 'A%' OR id IN (SELECT id FROM d.app.v)"
    assert rows(session, f"{query} ORDER BY id LIMIT 1") == [{"id": 1, "r": "AnnAnn"}]
    session.update("CREATE VIEW here AS SELECT id, repeat(name, id * 2) AS r FROM d.people")
    assert rows(session, "SELECT r FROM here WHERE id = 1") == [{"r": "AnnAnn"}]
