"""A condition with a random value is decided once for each row of its own place."""

import pytest
from datafusion.substrait import Producer

from flightllm.datafusion.contexts import QUERY_ONLY, encoded_frame, planned_text, scratch_context
from flightllm.session.session import Session
from tests.databases import ask, rows, small_database

_MANY = "FROM generate_series(1, 100) AS a(x)"
_BOTH = "generate_series(1, 100) AS b(y)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return a session over the small tables."""
    return small_database(tmp_path_factory.mktemp("random")).session()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM (SELECT unnest(range(0, 10000)) AS x) AS t WHERE random() < 0.5",
        "SELECT count(*) AS n FROM unnest(range(0, 10000)) AS t(x) WHERE substr(uuid(), 1, 1) < '8' AND x < 20000",
        f"SELECT count(*) AS n {_MANY} JOIN {_BOTH} ON random() < 0.5",
        f"SELECT count(*) AS n {_MANY} LEFT JOIN {_BOTH} ON random() < 0.5",
        f"SELECT count(*) AS n {_MANY}, {_BOTH} WHERE random() < 0.5 AND 'a\nb' <> 'c'",
        f"SELECT count(*) AS n FROM (SELECT x, y {_MANY}, {_BOTH} GROUP BY x, y HAVING random() < 0.5)",
    ],
)
def test_rows_are_decided_alone(session: Session, sql: str) -> None:
    """About half of 10,000 rows stay, and neither none nor all, nor a multiple of 100."""
    found = [rows(session, sql)[0]["n"] for _ in range(3)]
    assert all(4500 < n < 5500 for n in found)
    assert any(n % 100 for n in found)


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("bigquery", "SELECT count(*) AS n FROM UNNEST(GENERATE_ARRAY(1, 10000)) AS x WHERE RAND() < 0.5"),
        ("databricks", "SELECT count(*) AS n FROM (SELECT explode(sequence(1, 10000)) AS x) WHERE rand() < 0.5"),
        ("duckdb", "SELECT count(*) AS n FROM unnest(range(10000)) AS t(x) WHERE random() < 0.5"),
    ],
)
def test_dialects(session: Session, dialect: str, sql: str) -> None:
    """Each vendor's list becomes rows before the condition."""
    assert 4500 < ask(session, sql, **{"flightllm.dialect": dialect}).rows[0]["n"] < 5500


def test_groups_keep_their_rows(session: Session) -> None:
    """The rows of a group and the places of a window are counted before the condition drops any."""
    grouped = f"SELECT c FROM (SELECT x % 10 AS g, count(*) AS c {_MANY} GROUP BY x % 10) WHERE random() < 0.7"
    tried = [row["c"] for _ in range(3) for row in rows(session, grouped)]
    assert set(tried) == {10}
    assert len(tried) <= 30
    placed = f"SELECT x, k FROM (SELECT x, row_number() OVER (ORDER BY x) AS k {_MANY}) WHERE random() < 0.5"
    kept = rows(session, placed)
    assert 0 < len(kept) < 100
    assert all(row["x"] == row["k"] for row in kept)


def test_other_conditions_move() -> None:
    """A plan whose conditions are not random keeps DataFusion's rule."""
    context = scratch_context()
    context.sql("CREATE TABLE t AS VALUES (1), (2)")
    sql = "SELECT a.column1, random() FROM t AS a JOIN t AS b ON a.column1 = b.column1 WHERE a.column1 + b.column1 > 1"
    plan = planned_text(context, f"{sql} AND b.column1 > 1", QUERY_ONLY).optimized_logical_plan().display_indent()
    assert plan.index("Filter:") > plan.index("Join:")


def test_encoded_plans() -> None:
    """A plan in Substrait keeps its random condition at its join."""
    context = scratch_context()
    context.sql("CREATE TABLE t AS VALUES (1), (2)")
    sql = "SELECT * FROM t AS a JOIN t AS b ON a.column1 <= b.column1 AND random() < 2"
    plan = planned_text(context, sql, QUERY_ONLY).logical_plan()
    encoded = bytes(Producer.to_substrait_plan(plan, context).encode())
    read = encoded_frame(context, encoded)
    assert "random() < " in str(read.optimized_logical_plan().display_indent().splitlines()[:2])
    assert read.count() == 3
