"""Files of SQLite and DuckDB for tests of attached databases."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from flightllm.attached.database import AttachedDatabase, opened
from flightllm.attached.source import Source
from flightllm.config import AttachedConfig

PEOPLE = [(1, "Ann", 3.5, "likes tea"), (2, "bob", None, "it's \\ 100 %"), (3, None, -1.0, None), (4, "Ünï", 0.0, "")]


def sqlite_file(path: Path, *statements: str, people: bool = True) -> Path:
    """Make a file of SQLite, with the table `people` unless it is not wanted."""
    with closing(sqlite3.connect(path)) as connection:
        if people:
            connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, score REAL, note TEXT)")
            connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", PEOPLE)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def duckdb_file(path: Path, *statements: str) -> Path:
    """Make a file of DuckDB with the table `people`."""
    import duckdb

    with closing(duckdb.connect(str(path))) as connection:
        connection.execute("CREATE TABLE people (id INTEGER, name VARCHAR, score DOUBLE, note VARCHAR)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", PEOPLE)
        for statement in statements:
            connection.execute(statement)
    return path


def source_of(url: object, **options: Any) -> Source:
    """Return the source of an address."""
    return opened(AttachedConfig(str(url), **options))


def database_of(url: object, **options: Any) -> AttachedDatabase:
    """Return an attached database of the name `x`."""
    return AttachedDatabase("x", AttachedConfig(str(url), **options))
