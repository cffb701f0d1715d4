"""Plain statements have the rows, names and SQLSTATEs of a real PostgreSQL, and Flight has the same rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import psycopg
import pytest

from flightllm.flight.server import FlightSqlServer
from tests.postgres.support import Place, plain_rows

_ROWS, _, _ERRORS = Path(__file__).with_name("same.sql").read_text(encoding="utf-8").partition("-- errors\n")
ROWS, ERRORS = _ROWS.splitlines(), _ERRORS.splitlines()
TABLES = (
    """CREATE TABLE small (a int NOT NULL, b text, f boolean, x float8, n numeric(20,2), d date, ts timestamp,
    tags text[])""",
    """INSERT INTO small VALUES
    (1, 'x', true, 1.5, 10.25, date '2024-01-01', timestamp '2024-01-01 10:00:00', ARRAY['p', 'q']),
    (2, 'y', false, 2.5, -0.01, date '2024-01-02', timestamp '2024-01-02 11:30:00.5', ARRAY['r']),
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (4, 'x', false, -1, 0, date '1999-12-31', timestamp '1999-12-31 23:59:59', ARRAY['', NULL])""",
    'CREATE TABLE "Odd Names" ("Mixed Case" int, "select" text, "quote""d" text)',
    """INSERT INTO "Odd Names" VALUES (1, 'a', 'b'), (2, NULL, '"')""",
)


@pytest.fixture(scope="module")
def clients(
    place: Place, flight: FlightSqlServer, reference: "psycopg.Connection[Any]"
) -> Iterator[tuple[Any, Any, Any]]:
    """Return cursors of this server, of Flight and of PostgreSQL, over the same tables."""
    with (
        place.connect() as connection,
        flight_sql.connect(flight.uri, autocommit=True) as other,
        other.cursor() as reader,
    ):
        ours, theirs = connection.cursor(), reference.cursor()
        for text in TABLES:
            ours.execute(text)
            theirs.execute(text)
        yield ours, reader, theirs
        for name in ("small", '"Odd Names"'):
            ours.execute(f"DROP TABLE {name}")


@pytest.mark.parametrize("sql", ROWS)
def test_rows(clients: tuple[Any, Any, Any], sql: str) -> None:
    """Names and rows are equal."""
    ours, reader, theirs = clients
    found = ours.execute(sql).fetchall()
    assert plain_rows(found) == plain_rows(theirs.execute(sql).fetchall())
    assert [column.name for column in ours.description] == [column.name for column in theirs.description]
    reader.execute(sql)
    assert plain_rows(reader.fetchall()) == plain_rows(found)


@pytest.mark.parametrize("sql", ERRORS)
def test_errors(clients: tuple[Any, Any, Any], sql: str) -> None:
    """A wrong statement has PostgreSQL's SQLSTATE, and the connection goes on."""
    ours, _, theirs = clients
    with pytest.raises(psycopg.Error) as expected:
        theirs.execute(sql).fetchall()
    with pytest.raises(psycopg.Error) as failed:
        ours.execute(sql).fetchall()
    assert failed.value.sqlstate == expected.value.sqlstate
    assert ours.execute("SELECT 1").fetchone() == (1,)
