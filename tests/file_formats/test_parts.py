"""SQLite and zip files are a table for each of their tables or files."""

import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flightllm.catalog import Catalog
from flightllm.cli.sources import named_tables
from flightllm.config import LimitsConfig
from flightllm.errors import ConfigError
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


def test_zip(catalog: Catalog, tmp_path: Path) -> None:
    """Each CSV, JSON and Parquet file in it is a table; others and hidden ones are not."""
    pq.write_table(pa.table({"p": [1.5]}), tmp_path / "p.parquet")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as file:
        file.writestr("in/a.csv", "x;y\n1;2\n")
        file.writestr("b.json", '[{"k": 1}]')
        file.writestr("__MACOSX/b.json", "{}")
        file.writestr("README", "hi")
        file.write(tmp_path / "p.parquet", "p.parquet")
    assert opened(catalog, tmp_path / "all.zip") == {"a": [], "b": [], "p": []}
    assert read(catalog, "SELECT * FROM a, b, p") == [{"x": 1, "y": 2, "k": 1, "p": 1.5}]


@pytest.mark.parametrize(("name", "said"), [("t.zip", "as a zip file"), ("t.sqlite", "is not an SQLite file")])
def test_broken(tmp_path: Path, name: str, said: str) -> None:
    """A file of another kind is refused."""
    (tmp_path / name).write_text("no such file")
    with pytest.raises(ConfigError, match=said):
        named_tables([str(tmp_path / name)], lambda _: None)
