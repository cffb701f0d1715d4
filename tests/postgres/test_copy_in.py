"""COPY FROM STDIN."""

import datetime as dt
from typing import Any

import psycopg
import pytest

from tests.postgres.support import Place

_ROWS: list[tuple[Any, ...]] = [
    (1, "a\tb\\", 1.5, True, dt.date(2024, 1, 2), [1, None]),
    (2, None, None, False, None, None),
    (3, "", 2.0, None, dt.date(1999, 12, 31), []),
]


@pytest.mark.parametrize("how", ["", "(FORMAT binary)"])
def test_rows(place: Place, how: str) -> None:
    """Rows come back as they were sent, in both formats."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE c (a bigint, b text, x double, y boolean, d date, l bigint[])")
        with cursor.copy(f"COPY c FROM STDIN {how}") as copy:
            if how:
                copy.set_types(["int8", "text", "float8", "bool", "date", "int8[]"])
            for row in _ROWS:
                copy.write_row(row)
        assert cursor.statusmessage == "COPY 3"
        assert cursor.execute("SELECT * FROM c ORDER BY a").fetchall() == _ROWS


def test_csv(place: Place) -> None:
    """CSV has quotes, a header, an own delimiter and fewer columns; a quoted empty text is no NULL."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE c (a int, b text, x double)")
        with cursor.copy("COPY c (b, a) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';')") as copy:
            copy.write('b;a\n"x;""y"";\nz";1\n"";2\n;3\n')
        assert cursor.execute("SELECT * FROM c ORDER BY a").fetchall() == [
            (1, 'x;"y";\nz', None),
            (2, "", None),
            (3, None, None),
        ]


def _give_up(cursor: "psycopg.Cursor[Any]") -> None:
    with cursor.copy("COPY c FROM STDIN") as copy:
        copy.write("1\n")
        raise ValueError("enough")


@pytest.mark.parametrize(("lines", "code"), [("1\tx\n", "22P04"), ("no\n", "22P02")])
def test_wrong_rows(place: Place, lines: str, code: str) -> None:
    """Wrong rows store nothing, and the connection goes on."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE c (a int)")
        with pytest.raises(psycopg.Error) as failed, cursor.copy("COPY c FROM STDIN") as copy:
            copy.write(f"1\n{lines}")
        assert failed.value.sqlstate == code
        with pytest.raises(ValueError, match="enough"):
            _give_up(cursor)
        assert cursor.execute("SELECT count(*) FROM c").fetchone() == (0,)
