"""A promise that is not held is told to each client."""

import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import flightllm
from flightllm.config import PostgresConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.postgres.server import PostgresServer
from tests.databases import open_database
from tests.postgres.support import Place
from tests.simulated import Model, simulated

psycopg = pytest.importorskip("psycopg", reason="the extra 'test' is not installed")

LABELS = {f"text {n}": n % 5 == 0 for n in range(300)}
CALL = "ai_filter('Good? {t}', t, recall => 0.9, precision => 0.9, proxy => 'small', label_budget => 10)"
QUERY = f"SELECT t FROM r WHERE {CALL}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Place]]:
    """Serve simulated models over both protocols; return both places."""
    with (
        simulated({"demo": Model.of(LABELS), "small": Model.of(LABELS, error=0.05, scores="calibrated")}),
        closing(open_database(tmp_path_factory.mktemp("notices"))) as database,
    ):
        session = database.session()
        session.update("CREATE MODEL small OPTIONS (engine 'fake', model 'small')")
        session.update("CREATE TABLE r AS SELECT 'text ' || value AS t FROM generate_series(0, 299)")
        flight = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
        with PostgresServer(PostgresConfig("127.0.0.1:0"), flight.core) as postgres:
            yield f"grpc://127.0.0.1:{flight.port}", Place(postgres.port or 0)
        flight.drain(0)


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("text", [QUERY, f"CREATE OR REPLACE TABLE made AS {QUERY}"])
def test_psycopg_gets_a_notice(server: tuple[str, Place], text: str, prepare: bool) -> None:
    """PostgreSQL's clients get a WARNING, for a query and for a change."""
    told: list[str] = []
    with server[1].connect() as connection:
        connection.add_notice_handler(lambda one: told.append(f"{one.severity} {one.message_primary}"))
        connection.execute(text, prepare=prepare)
    assert len(told) == 1
    assert told[0].startswith("WARNING")
    assert "is not held" in told[0]


def test_python_gets_a_warning(server: tuple[str, Place]) -> None:
    """A program gets a warning at its own line, once for each run."""
    with flightllm.connect(server[0]) as connection, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = connection.sql(QUERY)
        assert result.fetchall()
        result.df()
    found = [one for one in told if "is not held" in str(one.message)]
    assert len(found) == 1
    assert Path(found[0].filename) == Path(__file__)
