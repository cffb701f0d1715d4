"""SQLite files: types by affinity, values that do not fit, and cancelled statements."""

from pathlib import Path

import pyarrow as pa
import pytest

from flightllm.errors import FlightLLMError, SqlError
from flightllm.session.session import Session
from tests.databases import open_database, rows
from tests.sources import source_of, sqlite_file

TYPES = """CREATE TABLE types (i INT, b BIGINT, v VARCHAR(3), r DOUBLE PRECISION, d DECIMAL(5, 2), o BOOLEAN,
    t DATETIME, x BLOB, n)"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Return a session with a file attached as `s`."""
    path = sqlite_file(
        tmp_path / "s.sqlite",
        TYPES,
        "INSERT INTO types VALUES (1, 2, 'abc', 1, 2, 1, '2024-01-02', x'00ff', 7)",
        "INSERT INTO types VALUES (NULL, NULL, NULL, NULL, 1.5, 0, 3, NULL, x'61')",
        "CREATE TABLE odd (i INTEGER, ok INTEGER)",
        "INSERT INTO odd VALUES (1, 1), ('two', 2)",
        "CREATE VIEW half AS SELECT id / 2 AS h, name COLLATE NOCASE AS name FROM people",
        "CREATE TABLE empty (a TEXT)",
        "ANALYZE",
    )
    database = open_database(tmp_path / "data")
    session = database.session()
    session.update(f"ATTACH '{path}' AS s")
    return session


def test_types(session: Session) -> None:
    """Each declared type has its type here; a column without one is text."""
    schema = session.catalog.table("s.main.types").schema
    kinds = [pa.int64(), pa.int64(), pa.string(), pa.float64(), pa.float64(), pa.bool_(), pa.string(), pa.binary()]
    assert schema.types == [*kinds, pa.string()]
    assert rows(session, "SELECT * FROM s.types ORDER BY i") == [
        dict(zip("ibvrdotxn", (1, 2, "abc", 1.0, 2.0, True, "2024-01-02", b"\x00\xff", "7"), strict=True)),
        dict(zip("ibvrdotxn", (None, None, None, None, 1.5, False, "3", None, "a"), strict=True)),
    ]
    assert rows(session, "SELECT count(*) AS n, max(a) AS m FROM s.empty") == [{"n": 0, "m": None}]


def test_a_value_that_does_not_fit(session: Session) -> None:
    """The error names the column and its type, not the value; other columns can be read."""
    with pytest.raises(FlightLLMError, match="the column 'i' has the type INTEGER at its source") as raised:
        rows(session, "SELECT i FROM s.odd")
    assert "two" not in str(raised.value)
    assert rows(session, "SELECT ok FROM s.odd ORDER BY ok") == [{"ok": 1}, {"ok": 2}]


def test_texts_are_compared_by_their_bytes(session: Session) -> None:
    """A collation of the source changes no result."""
    assert rows(session, "SELECT name FROM s.half WHERE name = 'ann'") == []
    assert rows(session, "SELECT name FROM s.half WHERE name > 'a'") == [{"name": "bob"}, {"name": "Ünï"}]
    assert rows(session, "SELECT name FROM s.half WHERE name <> 'ANN' ORDER BY 1") == [
        {"name": "Ann"},
        {"name": "bob"},
        {"name": "Ünï"},
    ]


def test_row_counts(tmp_path: Path) -> None:
    """ANALYZE's counts are known."""
    source = source_of(sqlite_file(tmp_path / "c.sqlite", "ANALYZE"))
    assert [(table.name, table.rows) for table in source.tables()] == [("people", 4)]


def test_a_file_that_is_none(tmp_path: Path, session: Session) -> None:
    """A missing file is not made, and a file of another kind is told."""
    with pytest.raises(SqlError, match="the server has no such file"):
        session.update(f"ATTACH '{tmp_path / 'gone.sqlite'}' AS g")
    assert not (tmp_path / "gone.sqlite").exists()
    (tmp_path / "text.sqlite").write_text("this is no database at all, only a text" * 40)
    with pytest.raises(SqlError, match="file is not a database"):
        session.update(f"ATTACH '{tmp_path / 'text.sqlite'}' AS g")
    assert rows(session, "SHOW DATABASES") == [{"database_name": "flightllm"}, {"database_name": "s"}]


def test_memory_is_bounded(tmp_path: Path, session: Session) -> None:
    """A large table comes in small batches, and LIMIT ends its scan."""
    path = sqlite_file(
        tmp_path / "large.sqlite",
        "CREATE TABLE n AS WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g LIMIT 50000) SELECT i FROM g",
    )
    source = source_of(path)
    found = source.rows("SELECT i FROM n")
    sizes = [batch.num_rows for batch in found.batches()]
    found.close()
    assert sum(sizes) == 50_000
    assert max(sizes) <= 4_096
    session.update(f"ATTACH '{path}' AS large")
    assert len(rows(session, "SELECT * FROM large.n LIMIT 5")) == 5


LARGE = 9_007_199_254_740_993
"""A whole number that no float has."""


def test_numbers_keep_their_digits(tmp_path: Path, session: Session) -> None:
    """A float in a column without a type has all of its digits, and a number that would change is an error."""
    path = sqlite_file(
        tmp_path / "n.sqlite",
        "CREATE TABLE n (id INT, plain, day DATE, amount NUMERIC)",
        f"INSERT INTO n VALUES (1, 0.1234567890123456, 2460000.123456789, {LARGE}), (2, 0.1, '2024-01-02', 0.5)",
        "INSERT INTO n VALUES (3, 1e300, NULL, 7)",
    )
    session.update(f"ATTACH '{path}' AS n")
    found = rows(session, "SELECT plain, day FROM n.n ORDER BY id")
    assert [float(row["plain"]) for row in found] == [0.1234567890123456, 0.1, 1e300]
    assert [float(found[0]["day"]), found[1]["day"], found[2]["day"]] == [2460000.123456789, "2024-01-02", None]
    for column in ("plain", "day"):
        for row in found[:2]:
            assert rows(session, f"SELECT {column} FROM n.n WHERE {column} = '{row[column]}'") == [
                {column: row[column]}
            ]
    for condition in ("", " WHERE id = 1"):
        with pytest.raises(SqlError, match="does not fit double"):
            rows(session, f"SELECT amount FROM n.n{condition}")
    assert rows(session, "SELECT amount FROM n.n WHERE id > 1 ORDER BY id") == [{"amount": 0.5}, {"amount": 7.0}]


def test_numbers_that_are_no_truth_values(tmp_path: Path, session: Session) -> None:
    """Only 0 and 1 are truth values: other numbers are an error, and not true."""
    path = sqlite_file(
        tmp_path / "b.sqlite",
        "CREATE TABLE b (ok BOOL, bad BOOLEAN)",
        "INSERT INTO b VALUES (1, 2), (0, -1), (NULL, 0)",
    )
    session.update(f"ATTACH '{path}' AS b")
    assert rows(session, "SELECT ok FROM b.b") == [{"ok": True}, {"ok": False}, {"ok": None}]
    with pytest.raises(SqlError, match="does not fit bool"):
        rows(session, "SELECT bad FROM b.b")


def test_a_text_that_is_no_utf_8(tmp_path: Path, session: Session) -> None:
    """The error does not show the text, which a row filter or a mask can hide."""
    path = sqlite_file(
        tmp_path / "u.sqlite", "CREATE TABLE u (id INT, t TEXT)", "INSERT INTO u VALUES (1, CAST(x'736563ff' AS TEXT))"
    )
    session.update(f"ATTACH '{path}' AS u")
    for sql in ("SELECT t FROM u.u", "SELECT id FROM u.u WHERE t LIKE 'x%'"):
        with pytest.raises(SqlError) as raised:
            rows(session, sql)
        assert "sec" not in str(raised.value)
    assert rows(session, "SELECT id FROM u.u") == [{"id": 1}]
