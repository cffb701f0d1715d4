"""Error codes and fields, and dates with a time, as PostgreSQL has them."""

from typing import Any

import psycopg
import pytest

from tests.postgres.support import Place


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("INSERT INTO strict (id) VALUES (1)", "name"),
        ("INSERT INTO strict SELECT 1, NULL", "name"),
        ("UPDATE strict SET name = NULL", "name"),
        ("SELECT interval '3 foos'", None),
        ("SELECT 'abc'::interval", None),
        ("SELECT 'abc'::timestamp", None),
        ("SELECT timestamp 'abc'", None),
        ("SELECT 'abc'::date", None),
    ],
)
def test_codes(place: Place, reference: "psycopg.Connection[Any]", text: str, column: str | None) -> None:
    """A missing value and a wrong time have PostgreSQL's code, and its field of the column."""
    found = list[Any]()
    with place.connect() as connection:
        for one in (connection, reference):
            one.execute("DROP TABLE IF EXISTS strict")
            one.execute("CREATE TABLE strict (id int, name text NOT NULL)")
            one.execute("INSERT INTO strict VALUES (1, 'x')")
            with pytest.raises(psycopg.Error) as failed:
                one.execute(text.encode())
            found.append((failed.value.sqlstate, failed.value.diag.column_name))
    assert found[0] == found[1]
    assert found[0][1] == column


def test_timeout(place: Place) -> None:
    """The message is PostgreSQL's, and the advice names the parameter that the client set."""
    with place.connect() as connection:
        connection.execute("SET statement_timeout = 50")
        with pytest.raises(psycopg.errors.QueryCanceled) as failed:
            connection.execute("SELECT ai_gen('Of {a}?', a) FROM t").fetchall()
    assert failed.value.diag.message_primary == "canceling statement due to statement timeout"
    assert "SET statement_timeout to more" in str(failed.value.diag.message_hint)


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-02",
        "2020-01-02 +00",
        "2020-01-02 00:00:00Z",
        "2020-01-02T00:00:00.000+00:00",
        "2020-01-02 23:59",
        "2020-01-02 nonsense",
        "2020-13-02 00:00:00Z",
    ],
)
def test_dates(place: Place, reference: "psycopg.Connection[Any]", text: str) -> None:
    """A date in text form can have a time, which it ignores."""
    found = list[bytes | None]()
    with place.connect() as connection:
        for one in (connection, reference):
            result = one.pgconn.exec_params(b"SELECT $1::date", [text.encode()], param_types=[1082])
            found.append(result.get_value(0, 0) if result.ntuples else None)
    assert found[0] == found[1]
