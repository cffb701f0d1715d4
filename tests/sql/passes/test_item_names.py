"""Unnamed columns of inner queries have the names that DataFusion gives them, whatever a pass makes of them."""

import pytest
from datafusion import SessionContext

from flightllm.session.session import Session
from tests.databases import ask, open_database

_ITEMS = (
    *("k * j", "sum(k)", "avg(k)", "k + j - 2", "-k * j", "sum(DISTINCT k)", "abs(k * j)", "(k + j) * 2"),
    *("sum(k) FILTER (WHERE j > 1)", "CAST(k * j AS INT)", "sum(k) + 1", "sum(t.k)", "coalesce(k * j, 0)"),
)


@pytest.mark.parametrize("query", ["(SELECT {} FROM {} GROUP BY k, j) s", "s"])
def test_names(query: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The names in a subquery, in WITH, and of the columns of a table that it makes are those of DataFusion."""
    rows = "(VALUES (1::bigint, 2::bigint)) t(k, j)"
    database = open_database(tmp_path_factory.mktemp("names"))
    session: Session = database.session()
    for item in _ITEMS:
        inner = f"SELECT {item} FROM {rows} GROUP BY k, j"
        common = f"WITH s AS ({inner}) " if query == "s" else ""
        sql = f"{common}SELECT * FROM {query.format(item, rows)}"
        wanted = [field.name for field in SessionContext().sql(sql).schema()]
        assert ask(session, sql).table.column_names == wanted, item
        session.update(f"CREATE OR REPLACE TABLE made AS {sql}")
        assert ask(session, "SELECT * FROM made").table.column_names == wanted, item
        assert ask(session, f'{common}SELECT "{wanted[0]}" AS v FROM {query.format(item, rows)}').table.num_rows == 1
    database.close()


def test_several_items(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Items with an alias, columns and unchanged items keep their names; a set operation has those of its left side."""
    database = open_database(tmp_path_factory.mktemp("names"))
    session = database.session()
    rows = "(VALUES (1::bigint, 2::bigint)) t(k, j)"
    sql = f"SELECT * FROM (SELECT k, k * j AS m, k + j, abs(k) FROM {rows} UNION ALL SELECT k, j, j * k, j FROM {rows})"
    assert ask(session, sql).table.column_names == ["k", "m", "t.k + t.j", "abs(t.k)"]
    assert ask(session, f"SELECT *, k * j FROM (SELECT k, j FROM {rows})").table.column_names == ["k", "j", "k * j"]
    database.close()
