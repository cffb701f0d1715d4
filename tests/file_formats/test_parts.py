"""SQLite and zip files are a table for each of their tables or files."""

import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.catalog import Catalog
from flightllm.config import LimitsConfig
from flightllm.connection.sources import named_tables
from flightllm.errors import ConfigError
from flightllm.file_formats.sqlite import convert_sqlite
from tests.catalogs import read, register_file


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Open a catalog without tables."""
    catalog = Catalog(LimitsConfig(), None, tmp_path / "data")
    yield catalog
    catalog.close()


def opened(catalog: Catalog, source: Path) -> dict[str, list[str]]:
    """Register the tables of a file; return the notes of each."""
    found = named_tables([str(source)], lambda _: None)
    return {name: register_file(catalog, name, Path(str(place))) for name, place in found}


def test_sqlite(catalog: Catalog, tmp_path: Path) -> None:
    """Each table is one, with the types of its values; the file is read again once it changes."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, price, note TEXT, raw, odd, none)")
        database.execute("INSERT INTO items VALUES (1, 2, 'x', x'00ff', 1, NULL), (2, 2.5, NULL, NULL, 'y', NULL)")
        database.execute('CREATE TABLE "Old Orders" (n)')
        database.commit()
        notes = opened(catalog, path)
        assert notes == {"items": ["columns with values of several types are texts: odd"], "old_orders": []}
        assert read(catalog, "SELECT * FROM items") == [
            {"id": 1, "price": 2.0, "note": "x", "raw": b"\x00\xff", "odd": "1", "none": None},
            {"id": 2, "price": 2.5, "note": None, "raw": None, "odd": "y", "none": None},
        ]
        assert read(catalog, "SELECT * FROM old_orders") == []
        database.execute('INSERT INTO "Old Orders" VALUES (7)')
        database.commit()
    assert [str(row["n"]) for row in read(catalog, "SELECT * FROM old_orders")] == ["7"]


def converted(tmp_path: Path, *statements: str) -> tuple[pa.Table, list[str]]:
    """Return the rows of the only table of an SQLite file that statements make, and the notes."""
    with closing(sqlite3.connect(tmp_path / "one.db")) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()
    notes = convert_sqlite(tmp_path / "one.db", "", tmp_path / "rows.parquet")
    return pq.read_table(tmp_path / "rows.parquet"), notes


def test_dates_of_sqlite(tmp_path: Path) -> None:
    """Columns declared as dates or times have these types if all values do; other texts stay texts."""
    found, notes = converted(
        tmp_path,
        "CREATE TABLE t (day DATE, at DATETIME, due TIMESTAMP, clock TIME, free TEXT, odd DATE, none DATE, n DATE)",
        "INSERT INTO t VALUES ('2024-01-02', '2024-01-02 03:04:05', '2024-01-02T03:04:05.5', '05:40', '2024-01-02',"
        " 'soon', NULL, 5), (NULL, '2024-01-03', NULL, '17:40:10', 'x', '2024-01-02', NULL, 6)",
    )
    assert notes == []
    assert found.to_pylist()[0] == {
        "day": date(2024, 1, 2),
        "at": datetime.fromisoformat("2024-01-02 03:04:05"),
        "due": datetime.fromisoformat("2024-01-02 03:04:05.500"),
        "clock": time(5, 40),
        "free": "2024-01-02",
        "odd": "soon",
        "none": None,
        "n": 5,
    }
    assert found.to_pylist()[1]["clock"] == time(17, 40, 10)


def test_bytes_among_texts_of_sqlite(tmp_path: Path) -> None:
    """Bytes among texts are read as UTF-8, or else a note says that they are hexadecimal digits."""
    made = "CREATE TABLE t (a)"
    found, notes = converted(tmp_path, made, "INSERT INTO t VALUES ('x'), (x'c3a4')")
    assert (found["a"].to_pylist(), notes) == (["x", "ä"], ["columns with values of several types are texts: a"])
    found, notes = converted(tmp_path, "INSERT INTO t VALUES (x'ff00')")
    assert found["a"].to_pylist() == ["x", "ä", "ff00"]
    assert notes == [
        "columns with values of several types are texts: a; bytes that are not UTF-8 are hexadecimal digits"
    ]


def test_texts_of_sqlite_that_are_not_utf_8(tmp_path: Path) -> None:
    """A text in another encoding is read as cp1252, and a note says so."""
    found, notes = converted(tmp_path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (CAST(x'4be47365' AS TEXT))")
    assert found["a"].to_pylist() == ["Käse"]
    assert notes == ["texts that are not UTF-8 are read as cp1252"]


def test_types_of_sqlite_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is read twice: for the types, and for the rows."""
    asked = list[str]()

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = plain(*given, **named)
        database.set_trace_callback(asked.append)
        return database

    plain = sqlite3.connect
    monkeypatch.setattr("flightllm.file_formats.sqlite.sqlite3.connect", connect)
    converted(tmp_path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    assert len([sql for sql in asked if "typeof" in sql]) == 1


def test_zip(catalog: Catalog, tmp_path: Path) -> None:
    """Each CSV, JSON and Parquet file in it is a table; others and hidden ones are not."""
    pq.write_table(pa.table({"p": [1.5]}), tmp_path / "p.parquet")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.writestr("in/a.csv", "x;y\n1;2\n")
        file.writestr("b.json", '[{"k": 1}]')
        file.writestr("__MACOSX/b.json", "{}")
        file.writestr(".hidden/b.json", "{}")
        file.writestr("_in/_c.csv", "z\n3\n")
        file.writestr("README", "hi")
        file.write(tmp_path / "p.parquet", "p.parquet")
    assert opened(catalog, tmp_path / "all.zip") == {"a": [], "b": [], "c": [], "p": []}
    assert read(catalog, "SELECT * FROM a, b, c, p") == [{"x": 1, "y": 2, "k": 1, "z": 3, "p": 1.5}]


@pytest.mark.parametrize(("name", "said"), [("t.zip", "as a zip file"), ("t.sqlite", "is not an SQLite file")])
def test_broken(tmp_path: Path, name: str, said: str) -> None:
    """A file of another kind is refused."""
    (tmp_path / name).write_text("no such file")
    with pytest.raises(ConfigError, match=said):
        named_tables([str(tmp_path / name)], lambda _: None)
