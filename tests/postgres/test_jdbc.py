"""PostgreSQL's JDBC driver, on which Metabase, Tableau, DBeaver and DataGrip stand, beside a real PostgreSQL."""

import shutil
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest

pytest.importorskip("duckdb")

from tests.pg_catalog.test_tools import TABLES
from tests.postgres import binaries, cluster
from tests.postgres.support import SECONDS, Place

DRIVER = Path("/usr/share/java/postgresql.jar")
SCRIPT = Path(__file__).parent / "java" / "Metadata.java"
JAVA = shutil.which("java")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(JAVA is None or not DRIVER.exists(), reason="no JDBC driver of PostgreSQL here"),
]


def answers(port: int, user: str) -> dict[str, list[str]]:
    """Return the lines that the driver printed for each question."""
    where = f"jdbc:postgresql://127.0.0.1:{port}/flightllm?user={user}"
    command = [JAVA or "", "-cp", str(DRIVER), str(SCRIPT), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    parts = [part.splitlines() for part in done.stdout.split("== ")[1:]]
    return {name: lines for name, *lines in parts}


@pytest.fixture(scope="module")
def both(place: Place) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the answers of this server, and those of PostgreSQL, over the same tables."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with place.connect() as connection:
        connection.execute("DROP TABLE t")  # PostgreSQL lacks it
        for text in TABLES:
            connection.execute(text.encode())
    ours = answers(place.port, "local")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with cluster(port) as real:
        where = f"host={real.folder} port={port}"
        with psycopg.connect(f"{where} user={real.user} dbname=postgres", autocommit=True) as first:
            first.execute("CREATE ROLE local SUPERUSER LOGIN")
            first.execute("CREATE DATABASE flightllm")
        with psycopg.connect(f"{where} user=local dbname=flightllm", autocommit=True) as connection:
            for text in TABLES:
                connection.execute(text.encode())
        return ours, answers(port, "local")


def _lines(found: dict[str, list[str]], name: str) -> list[list[str]]:
    """Return the columns and rows of an answer; `name` and `text` are one type to Java."""
    head, *rows = [line.split("\t") for line in found[name][1:]] or [[]]
    lines = [[column.replace(":name", ":text") for column in head], *rows]
    if name == "indexes":  # without indexes of its own, the server knows no sizes
        left = [at for at, column in enumerate(head) if not column.startswith(("CARDINALITY", "PAGES"))]
        return [[line[at] for at in left] for line in lines]
    if name == "types":  # PostgreSQL has one more for each relation of the catalog, an array of its rows
        return [lines[0], *sorted(row for row in rows if not row[0].startswith("_"))]
    return lines


@pytest.mark.parametrize(
    "name",
    [
        *("version", "schemas like", "catalogs", "table types", "tables", "any tables", "columns", "one column"),
        *("primary keys", "imported keys", "exported keys", "cross reference", "indexes", "best row"),
        *("version columns", "types", "own types", "client information", "rows"),
    ],
)
def test_same_answers(both: tuple[dict[str, list[str]], dict[str, list[str]]], name: str) -> None:
    """The driver finds the same columns and rows."""
    ours, theirs = both
    assert _lines(ours, name) == _lines(theirs, name)


def test_every_question_has_an_answer(both: tuple[dict[str, list[str]], dict[str, list[str]]]) -> None:
    """No question ends in an error, also where the servers differ."""
    ours, theirs = both
    assert ours.keys() == theirs.keys()
    assert not [line for lines in ours.values() for line in lines if line.startswith("error ")]
    assert any(line.startswith("null\tpublic\tai_filter\t") for line in ours["procedure columns"])
