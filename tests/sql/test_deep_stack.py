"""A function runs on a large stack, and the stacks of other threads keep their size."""

import threading
from collections.abc import Iterator

import pytest

from flightllm.errors import UnsupportedError
from flightllm.session.session import Session
from flightllm.sql.deep_stack import levels, on_large_stack
from tests.databases import ask, small_database

DIALECTS = ("default", "postgres", "duckdb", "bigquery", "spark", "databricks", "snowflake")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Open the small tables."""
    database = small_database(tmp_path_factory.mktemp("deep"))
    yield database.session()
    database.close()


def test_result_and_error() -> None:
    """The result comes back, an error too, and the size for new threads is as before."""
    before = threading.stack_size()
    assert on_large_stack(10_000, lambda: threading.current_thread().name) == "deep-text"
    with pytest.raises(ValueError, match="'a'"):
        on_large_stack(1, lambda: int("a"))
    assert threading.stack_size() == before


@pytest.mark.parametrize(("value", "count"), [(1, 0), ([], 1), ({"a": [1, ({"b": []},)]}, 4)])
def test_levels(value: object, count: int) -> None:
    """Levels are dicts, lists and tuples; an empty one inside is none."""
    assert levels(value) == count


@pytest.mark.parametrize("dialect", ["default", "duckdb", "bigquery", "spark"])
@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_many_conditions(session: Session, dialect: str, operator: str) -> None:
    """The passes read a text with as many conditions as the guard lets through, as they read a short one."""
    shown = "id <> {}" if operator == "AND" else "id = 1{}"
    short, long = (f" {operator} ".join(shown.format(place) for place in range(100, count)) for count in (101, 580))
    item = "round(id / 2) AS h, 7 / 2 AS q"
    queries = [
        f"SELECT {item} FROM people WHERE id > 6 AND (id = 7 {operator} {one}) ORDER BY id LIMIT 1"
        for one in (short, long)
    ]
    few, many = (ask(session, query, dialect=dialect).rows for query in queries)
    assert few == many
    assert few


@pytest.mark.parametrize("dialect", DIALECTS)
def test_most_operands(session: Session, dialect: str) -> None:
    """As many operands as the limit on terms allows are read, also where a pass changes one of them."""
    conditions = " AND ".join(f"id <> {place}" for place in range(100, 598))
    many = ask(session, f"SELECT id FROM people WHERE id + 7 > 9 AND {conditions} ORDER BY id", dialect=dialect)
    assert many.rows == ask(session, "SELECT id FROM people WHERE id > 2 ORDER BY id").rows


@pytest.mark.parametrize("dialect", DIALECTS)
def test_most_texts(session: Session, dialect: str) -> None:
    """A chain of `||` has all its texts in their order."""
    shown = " || ".join(["name", *(f"'{place} '" for place in range(240))])
    made = ask(session, f"SELECT {shown} AS made FROM people WHERE id = 1", dialect=dialect).rows
    (person,) = ask(session, "SELECT name FROM people WHERE id = 1").rows
    assert made == [{"made": person["name"] + "".join(f"{place} " for place in range(240))}]


def test_too_many_texts(session: Session) -> None:
    """A text that is too deep for its dialect is refused with what to write."""
    query = "SELECT NULL || " + " || ".join(["name"] * 480) + " FROM people"
    with pytest.raises(UnsupportedError, match="nested too deep for duckdb: compute a part in a subquery"):
        ask(session, query, dialect="duckdb")
