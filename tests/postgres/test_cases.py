"""Statements give the same rows over PostgreSQL's protocol, in text and in binary form, as over Flight."""

from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pytest
from psycopg import sql as text

from flightllm.flight.server import FlightSqlServer
from tests.postgres.support import Place, plain_rows

CASES = Path(__file__).with_name("cases.sql").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("sql", CASES)
def test_cases(place: Place, flight: FlightSqlServer, sql: str, binary: bool) -> None:
    """Rows and the number of columns are equal; columns without an alias have PostgreSQL's names."""
    with flight_sql.connect(flight.uri) as other, other.cursor() as reader:
        reader.execute(sql)
        expected = reader.fetch_arrow_table()
    with place.connect() as connection, connection.cursor(binary=binary) as cursor:
        cursor.execute(sql)
        assert len(cursor.description or ()) == expected.num_columns
        columns = [column.to_pylist() for column in expected.columns]
        assert plain_rows(cursor.fetchall()) == plain_rows(list(zip(*columns, strict=True)))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(
    ("call", "value", "kind"),
    [
        ("ai_gen('Greet {0}', {1})", "Ann", str),
        ("ai_filter('Is {0} good?', {1})", "the food", bool),
        ("ai_classify({1}, ['x', 'y'])", "the food", str),
        ("ai_score('How good is {0}?', {1})", "the food", float),
    ],
)
def test_models_answer_parameters(
    place: Place, flight: FlightSqlServer, call: str, value: str, kind: type, binary: bool
) -> None:
    """A model's answer for a parameter is that over Flight, also when prepared twice; NULL has the answer NULL."""
    with flight_sql.connect(flight.uri) as other, other.cursor() as reader, place.connect() as connection:
        for given in (value, value, None):
            reader.execute(f"SELECT {call.format('{0}', '$1')} AS x", (given,))
            expected = reader.fetchall()
            with connection.cursor(binary=binary) as cursor:
                query = text.SQL(f"SELECT {call.format('{0}', '%s::text')} AS x")
                cursor.execute(query, (given,), prepare=True)
                found = cursor.fetchall()
            assert found == expected
            assert isinstance(found[0][0], kind) if given is not None else found == [(None,)]
