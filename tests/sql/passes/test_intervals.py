"""Intervals are compared by their length, as in PostgreSQL: a month has 30 days, and a day 24 hours."""

import pyarrow as pa
import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from tests.databases import ask, rows

V = "(VALUES (INTERVAL '1 month', 1), (INTERVAL '29 days', 2), (INTERVAL '30 days', 3), (NULL, 4)) v(i, n)"
TIMES = (
    "CREATE OR REPLACE TABLE times AS SELECT n, TIMESTAMP '2024-01-01' AS a, CAST(b AS TIMESTAMP) AS b FROM (VALUES"
    " (1, '2024-01-01 10:00:00'), (2, '2024-01-02'), (3, '2024-01-09'), (4, '2024-02-01'), (5, NULL)) AS v(n, b)"
)


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session with times."""
    session.update(TIMES)
    return session


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("TIMESTAMP '2024-01-09' - TIMESTAMP '2024-01-01' > INTERVAL '1 day'", True),
        ("INTERVAL '1 month' = INTERVAL '30 days'", True),
        ("INTERVAL '1 year' <> INTERVAL '360 days'", False),
        ("INTERVAL '1 day 1 microsecond' > INTERVAL '24 hours'", True),
        ("INTERVAL '-1 month' < INTERVAL '-29 days'", True),
        ("INTERVAL '1 month' - INTERVAL '1 day' < INTERVAL '1 month'", True),
        ("CAST('25 hours' AS INTERVAL) BETWEEN INTERVAL '1 day' AND '2 days'", True),
        ("'25 hours'::interval IN (INTERVAL '1 day', INTERVAL '1 day 1 hour')", True),
        ("INTERVAL '24 hours' IS DISTINCT FROM INTERVAL '1 day' OR false", False),
        ("INTERVAL '24 hours' IS NOT DISTINCT FROM NULL", False),
        ("CASE INTERVAL '24 hours' WHEN INTERVAL '1 day' THEN 1 END = 1", True),
        ("CASE WHEN true THEN INTERVAL '2 days' END > INTERVAL '47 hours'", True),
        ("nullif(INTERVAL '24 hours', INTERVAL '1 day') IS NULL", True),
        ("coalesce(NULL, INTERVAL '2 days') > INTERVAL '3 hours'", True),
        ("INTERVAL '1 day' > NULL", None),
        ("(SELECT INTERVAL '1 day') < TIME '12:00' - TIME '11:00'", False),
    ],
)
def test_values(session: Session, sql: str, value: object) -> None:
    """Each comparison has PostgreSQL's value."""
    assert rows(session, f"SELECT {sql} AS found") == [{"found": value}]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT n FROM {V} ORDER BY i DESC NULLS FIRST, n", [4, 1, 3, 2]),
        (f"SELECT n, i FROM {V} ORDER BY 2, 1", [2, 1, 3, 4]),
        (f"SELECT n, i AS j FROM {V} ORDER BY j, n LIMIT 2", [2, 1]),
        (f"SELECT count(DISTINCT i) FROM {V}", [2]),
        (f"SELECT count(*) FROM {V} HAVING max(i) = INTERVAL '1 month'", [4]),
        (f"SELECT n FROM {V} WHERE i = (SELECT min(i) FROM {V})", [2]),
        (f"SELECT max(i) FILTER (WHERE n = 3) = INTERVAL '720 hours' FROM {V}", [True]),
        (f"SELECT v.n FROM {V} JOIN {V.replace('v(', 'w(')} ON v.i = w.i ORDER BY v.n", [1, 1, 2, 3, 3]),
        (f"SELECT n FROM {V} ORDER BY greatest(i, INTERVAL '30 days') DESC, n", [1, 2, 3, 4]),
        (f"SELECT greatest(i, INTERVAL '720 hours', NULL) FROM {V} WHERE n = 1", [pa.MonthDayNano([1, 0, 0])]),
        (f"SELECT n FROM (SELECT * FROM (SELECT n, i FROM {V}) q ORDER BY 2 DESC, 1 LIMIT 3) r", [4, 1, 3]),
        (f"SELECT n FROM {V} WHERE NOT INTERVAL '1 month' IN (i, INTERVAL '1 day')", [2]),
        (f"SELECT rank() OVER (ORDER BY i) FROM {V} ORDER BY n", [2, 1, 2, 4]),
        (f"SELECT count(*) OVER (PARTITION BY i) FROM {V} ORDER BY n", [2, 1, 2, 1]),
        (f"WITH q(j, m) AS (SELECT i, n FROM {V}) SELECT m FROM q WHERE j > INTERVAL '29 days' ORDER BY m", [1, 3]),
        (f"SELECT n FROM (SELECT i AS k, n FROM {V}) q WHERE k >= INTERVAL '30 days' ORDER BY n", [1, 3]),
        (f"SELECT n FROM {V} WHERE i = ANY (SELECT INTERVAL '720 hours') ORDER BY n", [1, 3]),
        (f"SELECT n FROM {V} WHERE i NOT IN (SELECT INTERVAL '720 hours') ORDER BY n", [2]),
        ("SELECT n FROM times WHERE b - a IN (SELECT INTERVAL '192 hours')", [3]),
        ("SELECT n FROM times WHERE b - a < INTERVAL '1 day'", [1]),
        ("SELECT n FROM times WHERE b - a = INTERVAL '1 day'", [2]),
        ("SELECT n FROM times WHERE (b - a) BETWEEN INTERVAL '1 day' AND INTERVAL '1 month' ORDER BY n", [2, 3]),
        ("SELECT count(*) FILTER (WHERE b - a > INTERVAL '1 week') FROM times", [2]),
        ("SELECT count(*) FROM times WHERE now() - b > INTERVAL '7 days'", [4]),
        ("SELECT n FROM (SELECT n, b - a AS d FROM times) q WHERE d > INTERVAL '1 day' ORDER BY d", [3, 4]),
        ("SELECT count(*) FROM times WHERE b > a + INTERVAL '1 day'", [2]),
    ],
)
def test_rows(session: Session, sql: str, wanted: list[object]) -> None:
    """The first column is that of PostgreSQL, in its order."""
    assert [next(iter(row.values())) for row in rows(session, sql)] == wanted


def test_changes_of_rows(session: Session) -> None:
    """DELETE, UPDATE, MERGE, INSERT, CREATE TABLE AS and views compare in the same way."""
    day = "INTERVAL '1 day'"
    session.update("CREATE OR REPLACE TABLE c AS SELECT * FROM times")
    session.update(f"CREATE OR REPLACE TABLE made AS SELECT n FROM c WHERE b - a > {day}")
    session.update(f"CREATE OR REPLACE VIEW seen AS SELECT n FROM c WHERE b - a > {day}")
    session.update(f"INSERT INTO made SELECT n + 10 FROM c WHERE b - a > {day}")
    assert [row["n"] for row in rows(session, "SELECT n FROM made ORDER BY n")] == [3, 4, 13, 14]
    assert [row["n"] for row in rows(session, "SELECT n FROM seen ORDER BY n")] == [3, 4]
    session.update("UPDATE c SET b = NULL WHERE b - a >= INTERVAL '1 month'")
    session.update(f"MERGE INTO c USING made AS m ON c.n = m.n WHEN MATCHED AND c.b - c.a > {day} THEN DELETE")
    session.update(f"DELETE FROM c WHERE b - a < {day}")
    assert [row["n"] for row in rows(session, "SELECT n FROM c ORDER BY n")] == [2, 4, 5]


RECURSIVE = "WITH RECURSIVE q(j, m) AS (SELECT a, n FROM kept UNION ALL SELECT j, m + 10 FROM q WHERE m < 9)"
STORED = [
    ("SELECT n FROM kept ORDER BY a, n", [2, 1, 3, 4]),
    ("SELECT n FROM kept WHERE a = b", [1]),
    ("SELECT x.n FROM kept x WHERE x.a >= (SELECT max(y.a) FROM kept y) ORDER BY 1", [1, 3]),
    ("SELECT count(DISTINCT a) FROM kept", [2]),
    ("SELECT max(n) FROM kept GROUP BY a = b ORDER BY 1", [1, 3, 4]),
    ("SELECT n FROM kept WHERE a IN (SELECT b FROM kept) ORDER BY n", [1, 3]),
    (f"{RECURSIVE} SELECT m FROM q ORDER BY j, m LIMIT 3", [2, 12, 1]),
    ("SELECT DISTINCT ON (a) n FROM kept ORDER BY a, n", [2, 1, 4]),
    ("SELECT n FROM seen_kept WHERE a = b", [1]),
    ("SELECT n FROM (SELECT *, a AS c FROM kept) q WHERE c > b ORDER BY n", [3]),
]


@pytest.mark.parametrize(("sql", "wanted"), STORED)
def test_stored_intervals(session: Session, sql: str, wanted: list[object]) -> None:
    """Columns of intervals need no word INTERVAL in the text."""
    session.update(f"CREATE OR REPLACE TABLE kept AS SELECT n, i AS a, INTERVAL '30 days' AS b FROM {V} WHERE n <> 3")
    session.update("INSERT INTO kept VALUES (3, INTERVAL '720 hours', INTERVAL '1 day')")
    session.update("CREATE OR REPLACE VIEW seen_kept AS SELECT * FROM kept")
    assert [next(iter(row.values())) for row in rows(session, sql)] == wanted


def test_changes_by_stored_intervals(session: Session) -> None:
    """DELETE, UPDATE and MERGE compare columns of intervals in the same way."""
    session.update(f"CREATE OR REPLACE TABLE gone AS SELECT n, i AS a, INTERVAL '30 days' AS b FROM {V}")
    session.update(f"CREATE OR REPLACE TABLE short AS SELECT n, INTERVAL '1 day' AS b FROM {V}")
    session.update("UPDATE gone SET n = 9 WHERE a < b")
    session.update("MERGE INTO gone USING short g ON gone.n = g.n WHEN MATCHED AND gone.a > g.b THEN UPDATE SET n = 7")
    session.update("DELETE FROM gone USING short AS k WHERE gone.a > k.b AND k.n = 3 AND gone.n = 9")
    assert [row["n"] for row in rows(session, "SELECT n FROM gone ORDER BY n")] == [4, 7, 7]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT * FROM kept",
        "SELECT a FROM kept UNION SELECT b FROM kept",
        "SELECT x.n FROM kept x JOIN kept y USING (a)",
        "SELECT count(*) FROM kept x NATURAL JOIN (SELECT a FROM kept) y",
        "SELECT a FROM kept GROUP BY ALL",
        "SELECT a FROM kept GROUP BY a",
    ],
)
def test_refused_for_stored_intervals(session: Session, sql: str) -> None:
    """A star, and a name in GROUP BY or USING, can mean a column of intervals."""
    session.update(f"CREATE OR REPLACE TABLE kept AS SELECT n, i AS a, INTERVAL '30 days' AS b FROM {V}")
    with pytest.raises(UnsupportedError, match="compares intervals"):
        ask(session, sql)


def test_beside_a_call(session: Session) -> None:
    """The call sees only rows for which the comparison holds."""
    found = ask(session, "SELECT n FROM times WHERE b - a > INTERVAL '1 day' AND ai_filter('Is {x} large?', x => n)")
    assert found.calls == 2


def test_parameters(session: Session) -> None:
    """A parameter beside an interval is an interval."""
    given = pa.RecordBatch.from_arrays([pa.array(["1 day"])], names=["0"])
    assert len(ask(session, "SELECT n FROM times WHERE b - a > $1::interval", given).rows) == 2


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (f"SELECT DISTINCT i FROM {V}", "DISTINCT at 1:17"),
        (f"SELECT i FROM {V} GROUP BY i", "GROUP BY at 1:126"),
        (f"SELECT i FROM {V} GROUP BY 1", "GROUP BY at 1:126"),
        (f"SELECT i FROM {V} UNION SELECT INTERVAL '1 day'", "UNION at 1:8"),
        (f"SELECT max(i) OVER (ORDER BY n) FROM {V}", r"max\(…\) OVER with an order, a frame or FILTER at 1:8"),
        (f"SELECT i FROM {V} GROUP BY CUBE (i, n)", "GROUP BY at 1:"),
        (f"SELECT i FROM {V} GROUP BY GROUPING SETS ((n), (2, 1))", "GROUP BY at 1:"),
        (f"SELECT n FROM {V} GROUP BY n, ROLLUP (i)", "GROUP BY at 1:"),
        ("SELECT least(ai_gen('x', '1')::interval, INTERVAL '1 day')", r"least\(…\) of an AI call at 1:"),
        (f"SELECT 1 FROM {V} JOIN {V.replace('v(', 'w(')} USING (i)", "USING at"),
    ],
)
def test_refused(session: Session, sql: str, said: str) -> None:
    """A clause without such a form is refused with its place, and what to write instead."""
    with pytest.raises(UnsupportedError, match=rf"{said}.*write extract\(epoch FROM …\)"):
        ask(session, sql)


def test_other_texts_stay(session: Session) -> None:
    """An interval that is only added is compared with nothing, and the plan shows it."""
    (plan,) = [row["plan"] for row in rows(session, "EXPLAIN SELECT n FROM times WHERE b > a + INTERVAL '1 day'")][:1]
    assert "date_part" not in plan
