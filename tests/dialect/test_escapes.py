"""The escapes of ODBC and JDBC: functions, joins and literals in braces, with the values that the standard says."""

from collections.abc import Iterator

import pytest

from flightllm.dialect import rewrite
from flightllm.errors import SqlError
from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from tests.databases import ask, small_database
from tests.dialect.places import EMPTY


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Return a session with a table of one row."""
    database = small_database(tmp_path_factory.mktemp("escapes"))
    session = database.session()
    session.update("CREATE TABLE one AS SELECT TIMESTAMP '2024-01-31 16:07:08' AS t, 'key_' AS k, 3 AS n")
    yield session
    database.close()


@pytest.mark.parametrize(
    ("expression", "ours"),
    [
        ("{fn YEAR(t)} * 100 + {fn WEEK(t)}", "date_part('year', t) * 100 + date_part('week', t)"),
        ("{fn UCASE({fn CONCAT(k, {fn SPACE(n)})})}", "'KEY_   '"),
        ("{fn LOCATE('e', k)}", "strpos(k, 'e')"),
        ("{fn LOCATE(substr(k, 2, 1), k || 'x')}", "2"),
        ("{fn CHAR(n + 62)}", "'A'"),
        ("{fn LOG({fn EXP(n)})}", "CAST(3 AS DOUBLE)"),
        ("{fn DAYNAME(t)} || {fn MONTHNAME(t)}", "'WednesdayJanuary'"),
        ("{fn DAYOFWEEK(DATE '2024-01-28')}", "1"),
        ("{fn CONVERT(n, SQL_VARCHAR)} || 'x'", "'3x'"),
        ("{fn CONVERT('2024-01-02', SQL_DATE)}", "DATE '2024-01-02'"),
        ("{fn TIMESTAMPADD(SQL_TSI_MONTH, 1, t)}", "TIMESTAMP '2024-02-29 16:07:08'"),
        ("{fn TIMESTAMPADD(SQL_TSI_QUARTER, -n, t)}", "TIMESTAMP '2023-04-30 16:07:08'"),
        ("{fn TIMESTAMPADD(SQL_TSI_WEEK, n, CAST(t AS DATE))}", "TIMESTAMP '2024-02-21 00:00:00'"),
        ("{fn EXTRACT(YEAR FROM t)}", "date_part('year', t)"),
        ("{fn POSITION('e' IN k)}", "2"),
        ("{fn IFNULL(NULL, n)}", "3"),
        ("{fn INSERT('abcd', 2, {fn MOD(n, 2)} + 1, 'ZZ')}", "'aZZd'"),
        ("{fn DATABASE()}", "'flightllm'"),
        ("{guid '0-1'}", "'0-1'"),
        ("k LIKE 'key\\_' {escape '\\'}", "TRUE"),
        ("{d '2024-01-02'}", "DATE '2024-01-02'"),
        ("{fn: n}['fn']", "n"),
        ("'{fn SPACE(1)}'", "concat('{fn SPACE', '(1)}')"),
    ],
)
def test_values(session: Session, expression: str, ours: str) -> None:
    """Each has the value of DataFusion's own form."""
    (row,) = ask(session, f"SELECT {expression} AS a, {ours} AS b FROM one").rows
    assert row["a"] == row["b"]


def test_joins(session: Session) -> None:
    """An outer join in braces is the join."""
    joined = "{oj one a LEFT OUTER JOIN one b ON a.n = b.n + 1}"
    found = ask(session, f"SELECT a.n, b.k FROM {joined} WHERE {{fn YEAR(a.t)}} = 2024")
    assert found.rows == [{"n": 3, "k": None}]


def test_names(session: Session) -> None:
    """A column without an alias has the escape's text as its name, and words beside the braces stay apart."""
    assert ask(session, "SELECT{fn LCASE(k)}FROM one").rows == [{"{fn lcase(k)}": "key_"}]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("{fn CONVERT(n, SQL_NOTHING)}", "SQL_NOTHING at 1:23 is unknown: write one of SQL_CHAR, SQL_VARCHAR"),
        ("{fn INSERT(k, ?, 2, ?)}", "INSERT at 1:12: its parameters would change their order: write overlay("),
        ("{fn TIMESTAMPADD(SQL_TSI_FRAC_SECOND, 1, t)}", "SQL_TSI_FRAC_SECOND at 1:25 is unknown"),
    ],
)
def test_refused(session: Session, expression: str, said: str) -> None:
    """An unknown type or unit, and a call with parameters in another order, are named with their place."""
    with pytest.raises(SqlError) as error:
        session.execute(f"SELECT {expression} FROM one")
    assert said in str(error.value)


@pytest.mark.parametrize("sql", ["SELECT {a: 1}", "SELECT MAP {'fn': 1}", "SELECT space(1), locate(a, b)"])
def test_leaves_alone(sql: str) -> None:
    """Structs and maps stay, and so do functions outside of escapes that servers disagree about."""
    assert rewrite(ParsedText(sql), EMPTY).text == sql
