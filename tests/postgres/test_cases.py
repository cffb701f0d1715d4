"""Statements give the same rows over PostgreSQL's protocol, in text and in binary form, as over Flight."""

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest

from flightllm.flight.server import FlightSqlServer
from tests.postgres.support import Place

CASES = Path(__file__).with_name("cases.sql").read_text(encoding="utf-8").splitlines()


def _plain(value: Any) -> Any:
    """Return a value as Python's clients show it, with intervals as durations."""
    if isinstance(value, pa.MonthDayNano):
        return timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds // 1_000)
    if isinstance(value, dict):
        return json.loads(json.dumps(value, default=str))
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return "nan" if value != value else value  # noqa: PLR0124 - NaN


def _rows(found: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[_plain(value) for value in row] for row in found]


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
        assert _rows(cursor.fetchall()) == _rows(list(zip(*columns, strict=True)))
