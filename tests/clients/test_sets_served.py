"""Each feature over sets in a server process of its own, whose model is an HTTP endpoint that counts its requests."""

import json
from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pytest

from tests.batch_endpoint import BatchProvider, batch_provider
from tests.clients.test_sets import DEPENDENT, FEATURES, fetched
from tests.servers import SupervisedServer, await_true

SETTINGS = """
[engine]
kind = "openai"
model = "gpt-test"
base_url = "{url}"
provider = "openai"
api_key_env = ""
[embedding]
kind = "fake"
"""
SHORT = ("agg", "dedup")
"""The features that the fast tests show."""
COUNTED = ("topic", "cluster", "dedup")
"""A group has fewer rows where some rows have no answer."""
most = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in FEATURES]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BatchProvider, str]]:
    """Run `flightllm serve` with a table of reviews; return the endpoint of its model, and its address."""
    with (
        batch_provider() as provider,
        SupervisedServer(tmp_path_factory.mktemp("served"), SETTINGS.format(url=provider.url)) as server,
    ):
        server.query(
            """CREATE TABLE reviews AS SELECT value AS id, CASE WHEN value % 2 = 0 THEN 'tea' ELSE 'pot' END AS product,
            'some words ' || value || ' about it' AS body FROM generate_series(1, 10)"""
        )
        yield provider, server.uri


@pytest.fixture
def cursor(served: tuple[BatchProvider, str]) -> Iterator[Any]:
    """Connect without kept answers, and count the requests anew."""
    provider, uri = served
    with adbc.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("TRUNCATE TABLE system.cache")
        provider.chats.clear()
        provider.asked.clear()
        yield cursor


@most
def test_counted_calls(name: str, cursor: Any, served: tuple[BatchProvider, str]) -> None:
    """The endpoint counts the calls that the record has and EXPLAIN foresees, and a second run asks nothing."""
    provider, sql = served[0], FEATURES[name]
    cursor.execute(f"EXPLAIN (FORMAT json) {sql}")
    predicted = json.loads(cursor.fetchone()[-1])["total"]["predicted"]["calls"]
    assert not provider.chats or name == "cluster"
    provider.chats.clear()
    found = fetched(cursor, sql)
    sent = provider.chats.total()
    assert found
    assert set(provider.chats.values()) == {1}
    cursor.execute(
        "SELECT sum(calls) FROM system.ai_calls WHERE query_id ="
        " (SELECT query_id FROM system.queries WHERE sql = ? ORDER BY started_at DESC LIMIT 1)",
        (sql,),
    )
    assert cursor.fetchone() == (sent,)
    assert name in DEPENDENT or name == "cluster" or predicted == sent
    assert fetched(cursor, sql) == found
    assert provider.chats.total() == sent


@most
def test_a_batch(name: str, cursor: Any, served: tuple[BatchProvider, str]) -> None:
    """A deferred statement has the rows of the immediate one, and buys each prompt once, in a job."""
    provider, sql = served[0], FEATURES[name]
    cursor.execute("SET flightllm.delivery = 'batch'")
    cursor.execute(sql)
    handle = cursor.fetch_arrow_table().to_pylist()[0]["id"]
    cursor.execute("SET flightllm.delivery = 'immediate'")

    def state() -> tuple[str, str]:
        cursor.execute("SELECT state, error FROM system.batches WHERE id = ?", (handle,))
        return cursor.fetchone()  # type: ignore[no-any-return]

    await_true(lambda: state()[0] in {"done", "failed", "cancelled"})
    assert state()[0] == "done", state()
    assert not provider.chats
    assert set(provider.asked.values()) == {1}
    stored = fetched(cursor, f"SELECT * FROM batch_result('{handle}')")
    assert fetched(cursor, sql) == stored
    assert not provider.chats


@most
def test_a_budget_with_null(name: str, cursor: Any, served: tuple[BatchProvider, str]) -> None:
    """A statement that reaches its limit midway has rows of the whole result, or NULL; the next statement is whole."""
    provider, sql = served[0], FEATURES[name]
    cursor.execute(f"EXPLAIN (FORMAT json) {sql}")
    predicted = json.loads(cursor.fetchone()[-1])["total"]["predicted"]
    cursor.execute("SET flightllm.on_budget = 'null'")
    # The estimate is within the limit. The room that is held for the longest answer is not.
    cursor.execute(f"SET flightllm.max_tokens = {predicted['prompt_tokens'] + predicted['completion_tokens']}")
    found = fetched(cursor, sql)
    cursor.execute("SET flightllm.max_tokens = 'none'")
    whole = fetched(cursor, sql)
    assert [row for row in found if row not in whole and "None" not in row] == [] or name in COUNTED
    assert not [row for row in whole if "None" in row]
    assert set(provider.chats.values()) == {1}
