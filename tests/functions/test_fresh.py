"""`fresh => true`: each row has an answer of its own, against an endpoint that numbers its answers."""

from collections.abc import Iterator
from typing import Any

import pytest

from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.databases import ask, explained, rows, small_database
from tests.endpoints import Endpoint, chat, endpoint_of


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Endpoint]:
    """Return an endpoint whose answers all differ."""
    with endpoint_of(lambda _, __, number: chat(f"draw {number}")) as found:
        yield found


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, endpoint: Endpoint) -> Iterator[Database]:
    """Return a database with a model at the endpoint, and a table of six rows with two texts."""
    database = small_database(tmp_path_factory.mktemp("fresh"), {})
    session = database.session()
    session.update(f"CREATE MODEL m OPTIONS (engine 'openai', model 'any', base_url '{endpoint.url}')")
    session.update("CREATE TABLE u AS SELECT v AS id, 'text ' || v % 2 AS t FROM generate_series(1, 6) AS g(v)")
    yield database
    database.close()


@pytest.fixture
def session(database: Database, endpoint: Endpoint) -> Session:
    """Return a session; the endpoint has counted no request."""
    session = database.session()
    session.update("TRUNCATE system.cache")
    endpoint.bodies.clear()
    return session


def _column(session: Session, sql: str, **settings: str) -> list[Any]:
    return [next(iter(row.values())) for row in ask(session, sql, **settings).rows]


DRAW = "ai_gen('Name one', t, model => 'm', temperature => 1, fresh => true)"
QUERIES = {
    "a column": f"SELECT {DRAW} AS a FROM u",
    "inside of a function": f"SELECT upper({DRAW}) AS a FROM u",
    "a condition": f"SELECT id AS a FROM u WHERE {DRAW} <> ''",
    "no field": "SELECT ai_gen('Name one', model => 'm', fresh => true) AS a FROM u",
    "a view": "SELECT a FROM (SELECT id, ai_gen('Name one', t, model => 'm', fresh => true) AS a FROM u) q",
    "a CASE": f"SELECT CASE WHEN id > 0 THEN {DRAW} END AS a FROM u",
    "a sort": f"SELECT {DRAW} AS a FROM u ORDER BY id",
}


@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("name", QUERIES)
def test_each_row_is_asked(session: Session, endpoint: Endpoint, name: str, optimizer: str) -> None:
    """Equal rows get different answers, and a second query asks again."""
    first = _column(session, QUERIES[name], optimizer=optimizer)
    assert (len(endpoint.bodies), len(set(first))) == (6, 6)
    second = _column(session, QUERIES[name], optimizer=optimizer)
    assert len(endpoint.bodies) == 12
    if name != "a condition":
        assert not set(first) & set(second)


def test_other_calls_share_answers(session: Session, endpoint: Endpoint) -> None:
    """A call beside it is asked once for equal rows, and its answers are kept."""
    shared = "ai_gen('Tell one', t, model => 'm')"
    found = rows(session, f"SELECT {DRAW} AS a, {shared} AS b FROM u")
    assert (len({row["a"] for row in found}), len({row["b"] for row in found})) == (6, 2)
    assert len(endpoint.bodies) == 8
    assert set(_column(session, f"SELECT {shared} FROM u")) == {row["b"] for row in found}
    assert len(endpoint.bodies) == 8
    (kept,) = _column(session, "SELECT entries FROM system.cache")
    assert kept == 2


def test_without_it_equal_rows_share(session: Session, endpoint: Endpoint) -> None:
    """A temperature alone gives equal prompts one draw."""
    assert len(set(_column(session, "SELECT ai_gen('Name one', t, model => 'm', temperature => 1) FROM u"))) == 2
    assert len(endpoint.bodies) == 2


def test_the_forecast_counts_each_row(session: Session) -> None:
    """EXPLAIN predicts a call for each row."""
    predicted = explained(session, f"SELECT {DRAW} AS a FROM u")
    (line,) = [line for line in predicted["total"].splitlines() if line.startswith("predicted")]
    assert line.split()[2] == "6"


def test_a_limit_asks_no_more_rows_than_it_needs(session: Session, endpoint: Endpoint) -> None:
    """LIMIT without an order asks about as many rows as it returns."""
    assert len(set(_column(session, f"SELECT {DRAW} AS a FROM u LIMIT 3"))) == 3
    assert len(endpoint.bodies) == 3


def test_rows_that_are_stored(session: Session) -> None:
    """UPDATE stores an answer of its own in each row."""
    session.update("CREATE OR REPLACE TABLE stored AS SELECT * FROM u")
    session.update(f"UPDATE stored SET t = {DRAW}")
    assert len(set(_column(session, "SELECT t FROM stored"))) == 6
