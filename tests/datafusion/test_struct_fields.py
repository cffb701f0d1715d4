"""Scans read single fields of structs, except below the rows of a list."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open a table with a struct and a list of structs, and a view of the rows of that list."""
    database = small_database(Path(tmp_path_factory.mktemp("structs")))
    session = database.session()
    session.update("CREATE TABLE t AS SELECT 1 AS id, named_struct('a', 2, 'b', 3) AS s, [named_struct('c', 4)] AS l")
    session.update("CREATE VIEW v AS SELECT id, x FROM t, LATERAL (SELECT unnest(t.l) AS x) y")
    yield session
    database.close()


@pytest.mark.parametrize("sql", ["SELECT sum(s['a']) FROM t", "SELECT s['a'] FROM t WHERE s['b'] = 3 ORDER BY id"])
def test_scan_of_a_field(session: Session, sql: str) -> None:
    """The scan itself returns the fields, so it reads no bytes of the others."""
    assert [tuple(row.values()) for row in ask(session, sql).rows] == [(2,)]
    [plan] = [row["plan"] for row in ask(session, f"EXPLAIN {sql}").rows if row["plan_type"] == "physical_plan"]
    [scan] = [line for line in plan.splitlines() if "DataSourceExec" in line]
    assert "get_field(s@1, a)" in scan


def test_view_of_the_rows_of_a_list(session: Session) -> None:
    """A text that names only the view has the same safe plan."""
    assert ask(session, "SELECT id, x['c'] AS c FROM v WHERE x['c'] > 1 ORDER BY 2").rows == [{"id": 1, "c": 4}]
