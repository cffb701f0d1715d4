"""Statements give the same rows over PostgreSQL's protocol, in text and in binary form, as over Flight."""

from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pytest

from flightllm.flight.server import FlightSqlServer
from tests.postgres.support import Place, plain_rows

CASES = Path(__file__).with_name("cases.sql").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("sql", CASES)
def test_cases(place: Place, flight: FlightSqlServer, sql: str, binary: bool) -> None:
    """Rows, column names and their number are equal."""
    with flight_sql.connect(flight.uri) as other, other.cursor() as reader:
        reader.execute(sql)
        expected = reader.fetch_arrow_table()
    with place.connect() as connection, connection.cursor(binary=binary) as cursor:
        cursor.execute(sql)
        assert [column.name for column in cursor.description or ()] == expected.column_names
        columns = [column.to_pylist() for column in expected.columns]
        assert plain_rows(cursor.fetchall()) == plain_rows(list(zip(*columns, strict=True)))
