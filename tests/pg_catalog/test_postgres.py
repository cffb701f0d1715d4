"""The rows of a real PostgreSQL 15 for the same tables, next to those of this server."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flightllm.session.session import Session
from tests.databases import ask, open_database
from tests.pg_catalog.test_tools import TABLES

pytest.importorskip("duckdb")
pytest.importorskip("psycopg")

BINARIES = Path("/usr/lib/postgresql/15/bin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not BINARIES.exists(), reason="no PostgreSQL 15 here")]
QUERIES = (Path(__file__).parent / "same.sql").read_text().split("\n;\n")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    """Start a PostgreSQL with the tables, and return a connection."""
    import psycopg

    folder = Path(tempfile.mkdtemp())  # another user owns it, so it cannot be below pytest's own folder
    shutil.chown(folder, "postgres")

    def run(command: str) -> None:
        subprocess.run(["/usr/bin/su", "postgres", "-c", command], check=True, timeout=120, stdout=subprocess.DEVNULL)

    data = folder / "data"
    run(f"{BINARIES}/initdb -D {data} -A trust -E UTF8 --locale=C.UTF-8")
    run(f"{BINARIES}/pg_ctl -D {data} -o '-k {folder} -h \"\" -F' -l {folder}/log -w start")
    try:
        with psycopg.connect(f"host={folder} user=postgres dbname=postgres", autocommit=True) as first:
            first.execute("CREATE DATABASE flightllm")
        with psycopg.connect(f"host={folder} user=postgres dbname=flightllm", autocommit=True) as connection:
            for text in TABLES:
                connection.execute(text)
            yield connection
    finally:
        run(f"{BINARIES}/pg_ctl -D {data} -m immediate -w stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session over the same tables, as a client of PostgreSQL's protocol has it."""
    database = open_database(tmp_path_factory.mktemp("own"))
    session = database.session()
    session.speak_postgres()
    for text in TABLES:
        session.update(text)
    yield session
    database.close()


@pytest.mark.parametrize("sql", QUERIES)
def test_same_rows(session: Session, postgres: Any, sql: str) -> None:
    """Both have the same columns and rows."""
    cursor = postgres.execute(sql.encode())
    table = ask(session, sql).table
    columns = [column.to_pylist() for column in table.columns]
    assert table.column_names == [column.name for column in cursor.description or ()]
    theirs = sorted(str(tuple(map(_plain, row))) for row in cursor.fetchall())
    assert sorted(str(tuple(map(_plain, row))) for row in zip(*columns, strict=True)) == theirs


def _plain(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
