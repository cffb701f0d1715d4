"""The order of a query in FROM or WITH stays."""

from typing import Any

import pytest

from flightllm.session.session import Session
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.passes.passes import edits
from tests.databases import rows

_DOWN = "(SELECT id, name FROM people ORDER BY id DESC) p"


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        (f"SELECT id AS v FROM {_DOWN} LIMIT 2", [9, 8]),
        (f"SELECT id AS v FROM {_DOWN} WHERE name = 'Ann'", [8, 7, 1]),
        ("WITH p AS (SELECT id AS v FROM people ORDER BY v DESC) SELECT * FROM p LIMIT 2", [9, 8]),
        ("SELECT * FROM (SELECT name AS v FROM people ORDER BY id DESC) p LIMIT 2", ["Fay", "Ann"]),
        ("SELECT upper(v) AS v FROM (SELECT name AS v FROM people WHERE id < 3 ORDER BY v DESC) p", ["BOB", "ANN"]),
        ("SELECT v FROM (SELECT id % 2 AS v FROM people GROUP BY 1 ORDER BY max(id)) p LIMIT 1", [0]),
        (f"SELECT array_agg(id) AS v FROM {_DOWN} WHERE id < 4", [[3, 2, 1]]),
        (f"SELECT string_agg(name, '+') AS v FROM {_DOWN} WHERE id < 6", ["Eve+Dan+Bob+Ann"]),
        (f"SELECT v FROM (SELECT id, row_number() OVER () AS v FROM {_DOWN}) q WHERE id = 7", [3]),
        ("SELECT v FROM (SELECT v FROM (SELECT id AS v FROM people ORDER BY -id) a) b LIMIT 1", [9]),
        (f"SELECT id AS v FROM people WHERE id IN (SELECT id FROM {_DOWN} WHERE id > 8)", [9]),
        (f"SELECT id AS v FROM {_DOWN} WHERE ai_filter('keep', name) IS NOT NULL LIMIT 2", [9, 8]),
    ],
)
def test_order(session: Session, sql: str, wanted: list[Any]) -> None:
    """Rows, lists and numbers have the order, also with a key that is no column, and beside an AI call."""
    assert [row["v"] for row in rows(session, sql)] == wanted


def test_changes(session: Session) -> None:
    """A change takes the first rows of the order."""
    session.update("CREATE TABLE taken (id bigint)")
    session.update(f"INSERT INTO taken SELECT id FROM {_DOWN} LIMIT 2")
    assert rows(session, "SELECT sum(id) AS s FROM taken") == [{"s": 17}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM (SELECT id FROM people ORDER BY id LIMIT 3) p",
        "SELECT id FROM (SELECT id FROM people ORDER BY id) p ORDER BY id DESC",
        "SELECT count(*) FROM (SELECT id FROM people ORDER BY id) p",
        "SELECT p.id FROM (SELECT id FROM people ORDER BY id) p JOIN likes ON person_id = p.id",
        "SELECT id FROM people WHERE EXISTS (SELECT 1 FROM (SELECT id FROM people ORDER BY id) p)",
    ],
)
def test_other_texts_stay(sql: str) -> None:
    """A text that does not read the order stays."""
    assert not list(edits(ParsedText(sql), lambda _: {}, lambda _: False))
