"""Whole numbers outside the range of their type are errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.errors import SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.integer_ranges import has_integer_operator
from tests.databases import ask, rows, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a table of the greatest and the least number of each type."""
    database = small_database(Path(tmp_path_factory.mktemp("data")))
    session = database.session()
    session.update("CREATE TABLE most (g int, s smallint, i int, b bigint)")
    session.update(
        "INSERT INTO most VALUES (1, 32767, 2147483647, 9223372036854775807), (2, -32768, -2147483648,"
        " -9223372036854775807), (3, 181, 46340, 3037000499)"
    )
    yield session
    database.close()


@pytest.mark.parametrize(
    "value", ["s + s", "s * s", "i + i", "i - -i", "i * i", "b + b", "b * b", "b + 1", "-1 - b - b"]
)
def test_results_outside_the_range(session: Session, value: str) -> None:
    """The error says which number does not fit; rows that fit have their values."""
    with pytest.raises(SqlError, match=r"the number -?\d+ is out of range of its type: write a wider type"):
        rows(session, f"SELECT {value} AS v FROM most WHERE g = 1")
    found = [row["v"] for row in rows(session, f"SELECT {value} AS v FROM most WHERE g = 3")]
    s, i, b = 181, 46340, 3037000499
    assert found == [eval(value, {"s": s, "i": i, "b": b})]  # noqa: S307


@pytest.mark.parametrize("count", [9, 24, 480])
def test_long_chains(session: Session, count: int) -> None:
    """A chain has as many operands as the limit on terms allows; each step of it has the range of its type."""
    values = [f"{sign.join(['g'] * count)} AS v" for sign in "+-"]
    values += [f"{'+'.join(['s', 'i', 'b'] * (count // 3))} AS v", f"sum({'+'.join(['b'] * count)}) AS v"]
    found = [rows(session, f"SELECT {value} FROM most WHERE g = 3")[0]["v"] for value in values]
    third = (181 + 46340 + 3037000499) * (count // 3)
    assert found == [3 * count, 3 * (2 - count), third, 3037000499 * count]
    ones = " + 1" * count
    for value in (f"b{ones} - 100", f"{' + '.join(['s'] * count)} - 0 * b", f"i - i + i{' + g' * count}"):
        with pytest.raises(SqlError, match="is out of range"):
            rows(session, f"SELECT {value} AS v FROM most WHERE g = 1")


def test_types_of_long_chains(session: Session) -> None:
    """A long chain has the type of a short one, and a NULL in it gives NULL."""
    types = ", ".join(f"arrow_typeof({'+'.join([name] * 12)}) AS {name}" for name in "sib")
    assert rows(session, f"SELECT {types} FROM most WHERE g = 3") == [{"s": "Int16", "i": "Int32", "b": "Int64"}]
    assert rows(session, f"SELECT {'+'.join(['b'] * 12)} + nullif(b, b) AS v FROM most WHERE g = 3") == [{"v": None}]
    assert rows(session, f"SELECT {'+'.join(['b'] * 12)} AS v FROM most WHERE g = 9") == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2147483647 + 1", r"2147483648 at 1:8 is out of range of INT: write CAST\(… AS BIGINT\)"),
        ("9223372036854775807 * 2", r"at 1:8 is out of range of BIGINT: write CAST\(… AS NUMERIC\)"),
    ],
)
def test_literals_outside_the_range(session: Session, value: str, message: str) -> None:
    """An operator over literals is an error before the query runs."""
    with pytest.raises(SqlError, match=message):
        rows(session, f"SELECT {value} AS v")


def test_sums(session: Session) -> None:
    """A sum of 64-bit numbers is an error if it does not fit, also over a window."""
    assert rows(session, "SELECT sum(b) AS v FROM most WHERE g > 1") == [{"v": -9223372036854775807 + 3037000499}]
    assert rows(session, "SELECT sum(b) FILTER (WHERE g = 3) AS v FROM most") == [{"v": 3037000499}]
    for sql in ("SELECT sum(b) AS v FROM most WHERE g <> 2", "SELECT sum(b) OVER (ORDER BY g DESC) AS v FROM most"):
        with pytest.raises(SqlError, match="is out of range of its type"):
            rows(session, f"{sql} AND g > 0" if "WHERE" in sql else sql.replace("FROM most", "FROM most WHERE g <> 2"))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("sum(DISTINCT b)", [9223372033817775308]),
        ("sum(b - 1)", [9223372033817775306]),
        ("sum(b) FILTER (WHERE g IN (SELECT g FROM most WHERE g > 2))", [3037000499]),
        ("sum(abs(b)) FILTER (WHERE g > 2)", [3037000499]),
        ("sum(b) - sum(b)", [0]),
        ("sum(b) OVER (PARTITION BY g ORDER BY g ROWS 1 PRECEDING)", [-3037000499, 9223372036854775807]),
        ("sum(CASE WHEN g = 3 THEN b ELSE 1 END)", [-3037000498]),
        ("sum(b - row_number) FILTER (WHERE g = 3)", [-3037000502]),
    ],
)
def test_sums_of_many_forms(session: Session, value: str, wanted: list[int]) -> None:
    """A sum has the exact value, also where its check reads other columns than the sum."""
    table = "(SELECT g, CASE g WHEN 3 THEN -b ELSE b END AS b, row_number() OVER (ORDER BY g) AS row_number FROM most)"
    found = rows(session, f"SELECT {value} AS v FROM {table} WHERE g <> 2 ORDER BY v")
    assert [abs(row["v"]) for row in found] == sorted(map(abs, wanted))


@pytest.mark.parametrize("dialect", ["", "postgres", "duckdb", "spark"])
def test_averages(session: Session, dialect: str) -> None:
    """An average of 64-bit numbers keeps the digits of their sum, in all forms of the call."""
    big = "(VALUES (9223372036854775807), (-9223372036854775807), (7)) v(n)"
    for value in ("avg(n)", "avg(DISTINCT n)", "avg(n) FILTER (WHERE n <> 0)", "max(n) * 0 + avg(n)"):
        found = ask(session, f"SELECT {value} AS v FROM {big}", **{"flightllm.dialect": dialect} if dialect else {})
        assert found.rows == [{"v": 7 / 3}]
    assert rows(session, f"SELECT avg(n) OVER () AS v FROM {big}") == [{"v": 7 / 3}] * 3
    assert rows(session, f"SELECT avg(n) AS v FROM {big} WHERE n = 0") == [{"v": None}]


def test_changes(session: Session) -> None:
    """A change stores no wrapped number."""
    session.update("CREATE TABLE kept (i int)")
    session.update("INSERT INTO kept VALUES (2147483647)")
    with pytest.raises(SqlError, match="4294967294 is out of range"):
        session.update("UPDATE kept SET i = i + i")
    assert rows(session, "SELECT i FROM kept") == [{"i": 2147483647}]


def test_results_that_fit_stay(session: Session) -> None:
    """A sum with a small literal, a count, and doubles have no check."""
    for value in ("i + 1", "i * 2", "s - 1", "g * 1.5", "count(*) OVER () + 1"):
        assert ask(session, f"SELECT {value} AS v FROM most WHERE g = 3").table.num_rows == 1


@pytest.mark.parametrize("dialect", ["snowflake", "bigquery", "databricks", "spark", "duckdb"])
def test_other_dialects(session: Session, dialect: str) -> None:
    """No vendor has a wrapped number: each of them has an error, or a wider number."""
    for value in ("b + b", "b - -1", "b * 2", "i * i", "sum(b) OVER ()"):
        with pytest.raises(SqlError, match=r"the number \d+ is out of range of its type: write a wider type"):
            ask(session, f"SELECT {value} AS v FROM most WHERE g <> 2", **{"flightllm.dialect": dialect})
    sql = "SELECT i + 1 AS v, sum(i) AS w FROM most WHERE g = 3 GROUP BY i"
    found = ask(session, sql, **{"flightllm.dialect": dialect})
    assert found.rows == [{"v": 46341, "w": 46340}]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT * FROM t", False),
        ("SELECT count(*), -1 FROM t", False),
        ("SELECT now() - interval '1 day', x * 0.5", False),
        ("SELECT a + b FROM t", True),
        ("SELECT sum(a) FROM t", True),
    ],
)
def test_texts_that_can_leave_the_range(sql: str, wanted: bool) -> None:
    """A star, a sign, and literals of other types are no operator between whole numbers."""
    assert has_integer_operator(ParsedText(sql)) == wanted
