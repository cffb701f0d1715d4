"""unnest and generate_series in FROM have PostgreSQL's columns and rows, also with columns of other tables."""

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.table_functions import has_table_function, table_functions
from flightllm.sql.tree import parse
from tests.databases import ask


@pytest.fixture(scope="module")
def session(session: Session) -> Session:
    """Return a session over a table of lists."""
    session.update("CREATE TABLE lists AS SELECT 1 AS id, make_array('a', 'b') AS l")
    session.update("INSERT INTO lists SELECT 2, make_array(NULL, 'c')")
    session.update("INSERT INTO lists SELECT 3, NULL")
    return session


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM generate_series(1, 3) AS t(n)",
        "SELECT value FROM generate_series(1, 3)",
        "SELECT t.value FROM generate_series(1, 3) t",
        "SELECT unnest(l) FROM lists",
    ],
)
def test_other_texts_stay(sql: str) -> None:
    """DataFusion's own name of the column works, and a series of constants keeps its function."""
    tree = parse(ParsedText(sql))
    assert tree is not None
    assert table_functions(tree, lambda _: {}).printed() == tree.printed()


def test_only_a_text_with_a_function_in_from_is_parsed() -> None:
    """The same words can name a function of SELECT, or a column."""
    assert has_table_function(ParsedText("SELECT * FROM lists CROSS JOIN LATERAL unnest(l)"))
    assert not has_table_function(ParsedText("SELECT unnest(l), range FROM range WHERE unnest > 1"))


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT n FROM generate_series(1, 2) n", [{"n": 1}, {"n": 2}]),
        ("SELECT * FROM generate_series(2, 1, -1)", [{"generate_series": 2}, {"generate_series": 1}]),
        ("SELECT id, u FROM lists, unnest(l) u WHERE id = 1", [{"id": 1, "u": "a"}, {"id": 1, "u": "b"}]),
        (
            "SELECT id, v, n FROM lists LEFT JOIN unnest(l) WITH ORDINALITY AS u(v, n) ON n > 1",
            [{"id": 1, "v": "b", "n": 2}, {"id": 2, "v": "c", "n": 2}, {"id": 3, "v": None, "n": None}],
        ),
        (
            "SELECT id, (SELECT count(v) FROM unnest(l) AS u(v)) AS n FROM lists",
            [{"id": 1, "n": 2}, {"id": 2, "n": 1}, {"id": 3, "n": 0}],
        ),
    ],
)
def test_rows_are_those_of_postgresql(session: Session, sql: str, wanted: list[dict[str, object]]) -> None:
    """A list that is NULL has no row, and counts do not begin at the list before it."""
    assert sorted(ask(session, sql).rows, key=repr) == sorted(wanted, key=repr)
