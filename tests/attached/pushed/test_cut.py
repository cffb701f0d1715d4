"""The parts of a query that go out: the largest ones of one source, and no part that returns more than its tables."""

import pytest

from flightllm.common.principal import Principal
from flightllm.session.session import Session
from tests.attached.pushed.conftest import Sources
from tests.databases import ask, explained, rows


@pytest.fixture
def session(sources: Sources) -> Session:
    """Return a session, in which `k` is a table of this server."""
    session = sources.session
    session.update("CREATE OR REPLACE TABLE k AS SELECT * FROM (VALUES (1), (2), (5)) AS v(i)")
    return session


def sent(session: Session, sql: str, source: str = "dd") -> str:
    """Return the statements that go to a source."""
    return explained(session, sql).get(f"sent to {source}", "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT q.n FROM k JOIN (SELECT i, count(*) AS n FROM dd.t GROUP BY i) AS q USING (i)",
        "SELECT count(*) AS n FROM k JOIN (SELECT t.i FROM dd.t JOIN dd.u ON t.s = u.s) AS q USING (i)",
        "SELECT i FROM dd.t WHERE s LIKE 'a%' AND i IN (SELECT i FROM k)",
        "SELECT s, ai_filter('Is it good?', s) AS a FROM (SELECT s FROM dd.t ORDER BY f DESC, i LIMIT 2) AS q",
    ],
)
def test_a_part_goes_out(session: Session, sql: str) -> None:
    """The part over the source goes out, and the rest runs here, with the rows of copies."""
    words = ("COUNT(", "INNER JOIN", "LIKE", "LIMIT 2")
    assert any(word in sent(session, sql) for word in words)
    assert sorted(map(str, rows(session, sql))) == sorted(map(str, rows(session, sql.replace("dd.", ""))))


def test_two_sources(session: Session) -> None:
    """Tables of two sources are joined here; each source does its own part."""
    sql = (
        "SELECT a.n, b.m FROM (SELECT b, count(*) AS n FROM dd.t GROUP BY b) AS a"
        " JOIN (SELECT b, max(i) AS m FROM pg.u GROUP BY b) AS b ON a.b = b.b ORDER BY 1, 2"
    )
    assert "COUNT(*)" in sent(session, sql)
    assert "MAX(" in sent(session, sql, "pg")
    assert rows(session, sql) == rows(session, sql.replace("dd.", "").replace("pg.", ""))


@pytest.mark.parametrize(
    "sql", ["SELECT t.i FROM dd.t CROSS JOIN dd.u", "SELECT t.i FROM dd.t JOIN dd.u ON t.i < u.i WHERE t.i > 1"]
)
def test_pairs_are_made_here(session: Session, sql: str) -> None:
    """A join without an equality returns more rows than its tables have, so the tables come here."""
    assert "JOIN" not in sent(session, f"{sql} AND random() < 2" if "WHERE" in sql else f"{sql}, k")


def test_a_count_of_pairs_goes_out(session: Session) -> None:
    """An aggregate over such a join returns few rows."""
    assert "CROSS JOIN" in sent(session, "SELECT count(*) AS n FROM dd.t CROSS JOIN dd.u")


def test_volatile_functions_stay(session: Session) -> None:
    """A volatile function runs here, once for each row."""
    sql = "SELECT count(*) AS n FROM dd.t WHERE random() < 2 AND s LIKE '%'"
    assert "COUNT" not in sent(session, sql)
    assert rows(session, sql) == [{"n": 7}]


def test_switched_off(session: Session) -> None:
    """Without the optimizer, and without its rules, each table is a SELECT."""
    sql = "SELECT count(*) AS n FROM dd.t JOIN dd.u USING (s)"
    for setting in ("optimizer", "rules"):
        session.update(f"SET flightllm.{setting} = off")
        assert "JOIN" not in sent(session, sql)
        assert rows(session, sql) == [{"n": 4}]
        session.update(f"RESET flightllm.{setting}")
    assert "JOIN" in sent(session, sql)


def test_calls_over_a_part(session: Session) -> None:
    """A model is asked about the rows of the part, in their order, with the same answers as over copies."""
    sql = (
        "SELECT t.i, ai_filter('Is it good?', t.s) AS a FROM dd.t JOIN dd.u ON t.i = u.i"
        " WHERE t.s LIKE '%' ORDER BY t.i DESC, t.f"
    )
    assert "INNER JOIN" in sent(session, sql)
    found, wanted = ask(session, sql), ask(session, sql.replace("dd.", ""))
    assert found.rows == wanted.rows
    assert wanted.calls == 0  # the answers are known now


@pytest.mark.parametrize("source", ["pg", "dd"])
def test_row_filters_and_masks_go_out(sources: Sources, source: str) -> None:
    """The statement of a restricted user has the filter and the mask inside, and returns no hidden row."""
    admin, table = sources.session, f"{source}.{'public' if source == 'pg' else 'main'}.t"
    ann = sources.database.session(Principal("ann", "user"))
    for one in (table, f"{table[:-1]}u"):
        admin.update(f"GRANT SELECT ON {one} TO ann")
    admin.update(f"CREATE ROW FILTER ON {table} TO ann AS z > 1")
    admin.update(f"CREATE COLUMN MASK ON {table} (d) TO ann AS DATE '2000-01-01'")
    sql = f"SELECT t.i, max(t.d) AS d, count(*) AS n FROM {source}.t JOIN {source}.u ON t.b = u.b GROUP BY t.i"
    assert "JOIN" in sent(ann, sql, source)
    seen = "(SELECT i, b, DATE '2000-01-01' AS d FROM t WHERE z > 1) AS t"
    wanted = f"SELECT t.i, max(t.d) AS d, count(*) AS n FROM {seen} JOIN u ON t.b = u.b GROUP BY t.i"
    assert rows(ann, f"{sql} ORDER BY 1") == rows(admin, f"{wanted} ORDER BY 1")
    hidden = f"SELECT count(*) AS n FROM {source}.t WHERE z <= 1 OR z IS NULL OR d <> DATE '2000-01-01'"
    assert rows(ann, hidden) == [{"n": 0}]
    # A condition that fails on a hidden row is not evaluated there: NULL and 0.01 are hidden.
    assert len(rows(ann, f"SELECT i FROM {source}.t WHERE 1 / (z - 0.01) > 0 AND s LIKE '%'")) == 3
