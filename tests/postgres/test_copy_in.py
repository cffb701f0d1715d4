"""COPY FROM STDIN."""

import datetime as dt
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("options", "sent", "rows"),
    [
        ("", "\\101\\x42\\303\\251\\xz\t1\n", [("ABéxz", 1)]),
        ("", "a\\\nb\t1\nc\\\r\nd\t2\n", [("a\nb", 1), ("c\nd", 2)]),
        ("(DELIMITER ',')", "a\\,b,1\n", [("a,b", 1)]),
        ("", "a\t1\n\\.\nb\t2\nnot a row\n", [("a", 1)]),
        ("(FORMAT csv)", 'a,1\n"x\n\\.\ny",2\n\\.\nb,3\nnot a row\n', [("a", 1), ("x\n\\.\ny", 2)]),
        (
            r"(FORMAT csv, ESCAPE '\')",
            'a\\N,1\n"a\\"b\\\\c\\N",2\n"a""b",3\n"",4\n,5\n',
            [("a\\N", 1), ('a"b\\c\\N', 2), ("ab", 3), ("", 4), (None, 5)],
        ),
    ],
)
def test_escapes_and_the_end_mark(place: Place, options: str, sent: str, rows: list[Any]) -> None:
    """Escapes, escaped line breaks and the end mark mean what they mean in PostgreSQL 15."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE e (b text, a int)")
        for size in (1, len(sent.encode())):
            cursor.execute("DELETE FROM e")
            with cursor.copy(f"COPY e FROM STDIN {options}") as copy:
                for at in range(0, len(sent.encode()), size):
                    copy.write(sent.encode()[at : at + size])
            assert cursor.execute("SELECT b, a FROM e ORDER BY a").fetchall() == rows


_TEXTS = st.none() | st.text(st.sampled_from("aN\\.,;\"'\t\r\n é0x|"), max_size=6)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=6),
    options=st.sampled_from(
        (
            "", "(DELIMITER ',')", "(NULL '')", "(FORMAT csv)", r"(FORMAT csv, ESCAPE '\')", "(FORMAT binary)",
            "(FORMAT csv, QUOTE '|', DELIMITER ';', NULL 'N')", "(FORMAT csv, HEADER, FORCE_QUOTE *)",
        )
    ),
)  # fmt: skip
def test_round_trip(place: Place, texts: list[tuple[str | None, str | None]], options: str) -> None:
    """What COPY TO writes, COPY FROM reads back with the same options, which cannot ask for quotes."""
    empty = None if options == "(NULL '')" else ""  # such a text is NULL there
    rows = [(number, *(empty if text == "" else text for text in pair)) for number, pair in enumerate(texts)]
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE r1 (n int, a text, b text)")
        cursor.execute("CREATE OR REPLACE TABLE r2 (n int, a text, b text)")
        values = ", ".join(["(%s, %s, %s)"] * len(rows))
        cursor.execute(f"INSERT INTO r1 VALUES {values}", [cell for row in rows for cell in row])
        with cursor.copy(f"COPY (SELECT * FROM r1 ORDER BY n) TO STDOUT {options}") as copy:
            sent = b"".join(copy)
        with cursor.copy(f"COPY r2 FROM STDIN {options.replace(', FORCE_QUOTE *', '')}") as copy:
            copy.write(sent)
        assert cursor.execute("SELECT * FROM r2 ORDER BY n").fetchall() == rows


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("CREATE TEMPORARY TABLE tmp_c (a int)", "tmp_c"),
        ("CREATE TEMPORARY TABLE tmp_c (a int)", "pg_temp.tmp_c"),
        ("CREATE TABLE second_s.c2 (a int)", "c2"),
        ("CREATE TABLE second_s.c2 (a int)", "SECOND_S.C2"),
        ("CREATE TEMPORARY TABLE c (a int)", "c"),
    ],
)
def test_names(place: Place, made: str, named: str) -> None:
    """COPY finds the table that a query of the same name reads: a temporary one first, then along the search path."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS second_s")
        cursor.execute("DROP TABLE IF EXISTS second_s.c2")
        cursor.execute("CREATE OR REPLACE TABLE c (a int)")
        cursor.execute("SET search_path TO public, second_s")
        cursor.execute(made)
        with cursor.copy(f"COPY {named} (a) FROM STDIN") as copy:
            copy.write("7\n8\n")
        assert cursor.execute(f"SELECT a FROM {named} ORDER BY a").fetchall() == [(7,), (8,)]
        if made.startswith("CREATE TEMPORARY TABLE c "):
            assert cursor.execute("SELECT count(*) FROM public.c").fetchone() == (0,)


def test_another_case(place: Place) -> None:
    """COPY finds the one table whose name is equal without case."""
    with place.connect() as connection, connection.cursor() as cursor:
        cursor.execute('CREATE OR REPLACE TABLE "CamelCase" (a int)')
        with cursor.copy("COPY camelcase FROM STDIN") as copy:
            copy.write("7\n")
        assert cursor.execute('SELECT a FROM "CamelCase"').fetchall() == [(7,)]
        with pytest.raises(psycopg.errors.UndefinedTable), cursor.copy("COPY no_such_table FROM STDIN"):
            pass


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("FORMAT csv", "1,x\n\n2,y\n"),
        ("FORMAT csv", '1,"a\n\nb"\n'),
        ("FORMAT csv", '1,"a\n"\n\n'),
        ("FORMAT csv", "\r\n"),
        ("FORMAT csv", "1,x\n\n\\.\n"),
        ("FORMAT csv, HEADER match", "a,b\n1,x\n"),
        ("FORMAT csv, HEADER match", "b,a\n1,x\n"),
        ("FORMAT csv, HEADER match", "a,\n1,x\n"),
        ("FORMAT csv, HEADER match", '"a","b"\n'),
        ("FORMAT text, HEADER match", "a\tc\n1\tx\n"),
        ("FORMAT csv, HEADER", "x,y\n1,x\n"),
        ("FORMAT csv, FORCE_NULL (b)", '1,""\n2,\n3,x\n'),
        ("FORMAT csv, FORCE_NOT_NULL (b)", '1,""\n2,\n3,x\n'),
        ("FORMAT csv, NULL 'no', FORCE_NULL (b)", '1,"no"\n2,no\n3,x\n'),
        ("FORMAT csv, NULL 'no', FORCE_NOT_NULL (b)", '1,"no"\n2,no\n3,x\n'),
        ("FORMAT csv, FORCE_NULL (c)", "1,x\n"),
        ("FORMAT text, FORCE_NULL (b)", "1\tx\n"),
    ],
)
def test_as_postgres(place: Place, reference: "psycopg.Connection[Any]", options: str, sent: str) -> None:
    """Empty lines, headers and forced NULLs give PostgreSQL's rows, or its errors."""
    found = list[Any]()
    with place.connect() as connection:
        for one in (connection, reference):
            one.execute("DROP TABLE IF EXISTS given")
            one.execute("CREATE TABLE given (a int, b text)")
            try:
                with one.cursor().copy(f"COPY given FROM STDIN ({options})".encode()) as copy:
                    copy.write(sent)
                found.append(one.execute("SELECT a, b FROM given ORDER BY a").fetchall())
            except psycopg.Error as error:
                found.append((error.sqlstate, error.diag.message_primary))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "options",
    ["FORCE_NULL (A)", 'FORCE_NULL ("A")', 'FORCE_NULL ("a,b")', 'FORCE_NULL (A, "a,b")', "FORCE_QUOTE (a)"],
)
def test_names_of_columns(place: Place, reference: "psycopg.Connection[Any]", options: str) -> None:
    """The names in the options are read as in SQL, and an option of the other direction is an error."""
    found = list[Any]()
    with place.connect() as connection:
        for one in (connection, reference):
            one.execute("DROP TABLE IF EXISTS given")
            one.execute('CREATE TABLE given (a text, "a,b" text)')
            rows = list[Any]()
            try:
                with one.cursor().copy(f"COPY given FROM STDIN (FORMAT csv, {options})".encode()) as copy:
                    copy.write('"",""\n')
                rows = one.execute("SELECT * FROM given").fetchall()
                with one.cursor().copy(f"COPY given TO STDOUT (FORMAT csv, {options})".encode()) as copy:
                    rows += list(copy)
            except psycopg.Error as error:
                rows.append(error.sqlstate)
            found.append(rows)
    assert found[0] == found[1]


def test_older_forced_nulls(place: Place) -> None:
    """The older spelling names the columns without parentheses."""
    with place.connect() as connection:
        connection.execute("CREATE OR REPLACE TABLE given (a text, b text)")
        with connection.cursor().copy("COPY given FROM STDIN CSV FORCE NOT NULL a FORCE NULL b HEADER match") as copy:
            copy.write('a,b\n,""\n')
        assert connection.execute("SELECT a, b FROM given").fetchall() == [("", None)]
