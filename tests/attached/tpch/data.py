"""The tables of TPC-H in each source, from the files that the package `tpchgen-cli` makes."""

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

TABLES: Final = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
_SQLITE: Final = {"BIGINT": "INTEGER", "INTEGER": "INTEGER", "VARCHAR": "TEXT", "DATE": "DATE"}


def program() -> Path | None:
    """Return the program that makes the files; None where it is not installed."""
    beside = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("tpchgen-cli")
    return None if found is None else Path(found)


def load_postgres(address: str, file: Any) -> None:
    """Copy the tables of a DuckDB file into a PostgreSQL."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        for table in TABLES:
            columns = ", ".join(f"{name} {kind}" for name, kind, *_ in file.execute(f"DESCRIBE {table}").fetchall())
            connection.execute(f"CREATE TABLE {table} ({columns})")
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for row in file.execute(f"SELECT * FROM {table}").fetchall():
                    copy.write_row(row)
        connection.execute("ANALYZE")


def load_sqlite(path: Path, file: Any) -> None:
    """Copy the tables of a DuckDB file into a new SQLite file."""
    with closing(sqlite3.connect(path)) as connection:
        for table in TABLES:
            described = file.execute(f"DESCRIBE {table}").fetchall()
            columns = ", ".join(f"{name} {_SQLITE.get(kind, 'REAL')}" for name, kind, *_ in described)
            connection.execute(f"CREATE TABLE {table} ({columns})")
            texts = ", ".join(
                f"{name}::text" if kind == "DATE" else name if kind in _SQLITE else f"{name}::double"
                for name, kind, *_ in described
            )
            found = file.execute(f"SELECT {texts} FROM {table}").fetchall()
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(described))})", found)
        connection.commit()
