"""JSON functions take the row of a table, as in PostgreSQL."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.errors import FlightLLMError
from flightllm.session.session import Session
from tests.databases import ask, small_database


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open two tables: a parent without children, and one with two."""
    database = small_database(tmp_path_factory.mktemp("rows"))
    session = database.session()
    session.update("CREATE TABLE p (id INT, sku TEXT, price NUMERIC(8, 2))")
    session.update("INSERT INTO p VALUES (1, 'A', 5), (2, NULL, 2.5)")
    session.update("CREATE TABLE q (id INT, pid INT, p TEXT)")
    session.update("INSERT INTO q VALUES (1, 1, 'x'), (2, 1, 'y')")
    yield session
    database.close()


@pytest.mark.parametrize("dialect", ["postgres", "default"])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT row_to_json(r) FROM p r WHERE id = 1", [('{"id":1,"sku":"A","price":5.00}',)]),
        ("SELECT to_jsonb(p) FROM p WHERE id = 2", [('{"id": 2, "sku": null, "price": 2.50}',)]),
        ("SELECT to_json(p) ->> 'sku' FROM p ORDER BY id", [("A",), (None,)]),
        (
            "SELECT jsonb_agg(t ORDER BY t.n) FROM (SELECT id, count(*) AS n FROM p GROUP BY id) t WHERE id = 2",
            [('[{"n": 1, "id": 2}]',)],
        ),
        (
            "SELECT p.id, jsonb_agg(k ORDER BY k.id) FROM p JOIN (SELECT id, pid FROM q) k ON pid = p.id GROUP BY p.id",
            [(1, '[{"id": 1, "pid": 1}, {"id": 2, "pid": 1}]')],
        ),
        (
            "SELECT (SELECT jsonb_agg(c) FROM (SELECT id FROM q WHERE pid = p.id AND id = 2) c) FROM p ORDER BY id",
            [('[{"id": 2}]',), (None,)],
        ),
        ("WITH t AS (SELECT id FROM p) SELECT id FROM t ORDER BY to_json(t) ->> 'id' DESC", [(2,), (1,)]),
        ("SELECT to_json(p) FROM q ORDER BY id", [('"x"',), ('"y"',)]),
        ("SELECT row_to_json(v) FROM (VALUES (1, 'a')) AS v(n, \"S\")", [('{"n":1,"S":"a"}',)]),
    ],
)
def test_rows(session: Session, dialect: str, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """The JSON of a row is that of PostgreSQL 15; a column of the same name comes first."""
    found = [tuple(row.values()) for row in ask(session, sql, dialect=dialect).rows]
    assert found == rows


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT to_json(q) FROM p LEFT JOIN q ON q.pid = p.id", "write CASE WHEN q.id IS NOT NULL"),
    ],
)
def test_lines(session: Session, sql: str, line: str) -> None:
    """A row without a value is an error with the line to write."""
    with pytest.raises(FlightLLMError, match=line):
        ask(session, sql)
