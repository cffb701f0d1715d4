"""Each feature over sets in a server process of its own, whose model is an HTTP endpoint that counts its requests."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pytest

from flightllm.access.store import User
from flightllm.config import Config, EmbeddingConfig, EngineConfig
from flightllm.session.database import Database
from tests.batch_endpoint import BatchProvider, batch_provider
from tests.clients.test_sets import DEPENDENT, FEATURES, HIDDEN, WHOLE, fetched
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
RUNNING = "SELECT count(*) FROM system.queries WHERE \"user\" = 'ann' AND status = 'running'"
JOINS = ("match", "pairs", "symmetric", "map", "pivot")
COUNTED = ("topic", "cluster", "dedup")
"""A group has fewer rows where some rows have no answer."""
most = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT else pytest.mark.slow) for name in FEATURES]
)


class Served:
    """A server process with users who see a part of the reviews; its endpoint can hold its replies back."""

    def __init__(self, provider: BatchProvider, uri: str, tokens: dict[str, str], gate: threading.Event) -> None:
        self.provider = provider
        self.gate = gate
        self._uri = uri
        self._tokens = tokens
        self._opened = ExitStack()

    def log_in(self, name: str) -> Any:
        """Return a cursor of a user."""
        header = {"adbc.flight.sql.authorization_header": f"Bearer {self._tokens[name]}"}
        connection = self._opened.enter_context(adbc.connect(self._uri, db_kwargs=header, autocommit=True))
        return self._opened.enter_context(connection.cursor())

    def close(self) -> None:
        """Close all connections."""
        self._opened.close()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Served]]:
    """Run `flightllm serve` with users: ann has a row filter, bob a mask, and cat has both."""
    folder, gate = tmp_path_factory.mktemp("served"), threading.Event()
    gate.set()
    database = Database.open(
        Config(engine=EngineConfig("fake"), embedding=EmbeddingConfig("fake"), data_folder=folder / "data")
    )
    admin, store = database.session(), database.access.store
    admin.update(
        f"""CREATE TABLE reviews AS SELECT value AS id, CASE WHEN value % 2 = 0 THEN 'tea' ELSE 'pot' END AS product,
        CASE WHEN value % 4 = 3 OR value > 8 THEN '{HIDDEN} words ' ELSE 'some words ' END || value || ' about it'
        AS body FROM generate_series(1, 10)"""
    )
    masked = f"replace(body, '{HIDDEN}', 'other')"
    admin.update(f"CREATE TABLE seen_by_cat AS SELECT id, product, {masked} AS body FROM reviews WHERE id <= 8")
    for name in ("root", "ann", "bob", "cat"):
        store.add_user(User(name, "admin" if name == "root" else "user"))
        admin.update(f"GRANT SELECT ON reviews TO {name}")
    for name in ("ann", "cat"):
        admin.update(f"CREATE ROW FILTER ON reviews TO {name} AS id <= 8")
    for name in ("bob", "cat"):
        admin.update(f"CREATE COLUMN MASK ON reviews(body) TO {name} AS {masked}")
    tokens = {name: store.add_token(name) for name in ("root", "ann", "bob", "cat")}
    database.close()
    settings = SETTINGS.replace("[embedding]", "max_in_flight = 1\n[embedding]")
    with (
        batch_provider(before_reply=lambda path: path.endswith("/completions") and gate.wait(60)) as provider,
        SupervisedServer(folder, settings.format(url=provider.url)) as server,
    ):
        yield lambda: Served(provider, server.uri, tokens, gate)


@pytest.fixture
def served(process: Callable[[], Served]) -> Iterator[Served]:
    """Return the server without kept answers, and count the requests anew."""
    server = process()
    server.log_in("root").execute("TRUNCATE TABLE system.cache")
    server.provider.chats.clear()
    server.provider.asked.clear()
    yield server
    server.gate.set()
    server.close()


@pytest.fixture
def cursor(served: Served) -> Any:
    """Connect an administrator."""
    return served.log_in("root")


@most
def test_counted_calls(name: str, cursor: Any, served: Served) -> None:
    """The endpoint counts the calls that the record has and EXPLAIN foresees, and a second run asks nothing."""
    provider, sql = served.provider, FEATURES[name]
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
def test_a_batch(name: str, cursor: Any, served: Served) -> None:
    """A deferred statement has the rows of the immediate one, and buys each prompt once, in a job."""
    provider, sql = served.provider, FEATURES[name]
    cursor.execute("SET flightllm.delivery = 'batch'")
    cursor.execute(sql)
    handle = cursor.fetch_arrow_table().to_pylist()[0]["id"]
    cursor.execute("SET flightllm.delivery = 'immediate'")

    def state() -> tuple[str, str]:
        cursor.execute("SELECT state, error FROM system.batches WHERE id = ?", (handle,))
        row: tuple[str, str] = cursor.fetchone()
        return row

    await_true(lambda: state()[0] in {"done", "failed", "cancelled"})
    assert state()[0] == "done", state()
    assert not provider.chats
    assert set(provider.asked.values()) == {1}
    stored = fetched(cursor, f"SELECT * FROM batch_result('{handle}')")
    assert fetched(cursor, sql) == stored
    assert not provider.chats


@most
def test_a_budget_with_null(name: str, cursor: Any, served: Served) -> None:
    """A statement that reaches its limit midway has rows of the whole result, or NULL; the next statement is whole."""
    provider, sql = served.provider, FEATURES[name]
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


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_without_the_optimizer(name: str, cursor: Any) -> None:
    """The rows are the same, or the error says what the method needs."""
    found = fetched(cursor, FEATURES[name])
    cursor.execute("SET flightllm.optimizer = 'off'")
    try:
        if name in WHOLE:
            with pytest.raises(adbc.Error, match=r"needs all rows .*at once.*set it to 'on'"):
                fetched(cursor, FEATURES[name])
        elif name != "symmetric":  # without the optimizer, the endpoint is asked both orders
            assert fetched(cursor, FEATURES[name]) == found
    finally:
        cursor.execute("SET flightllm.optimizer = 'on'")


@most
def test_a_restricted_user_cancels(name: str, served: Served) -> None:
    """The query ends though the endpoint is slow, the endpoint gets no more prompts, and other users work on."""
    ann, provider = served.log_in("ann"), served.provider
    served.gate.clear()
    said: list[str] = []

    def run() -> None:
        try:
            fetched(ann, FEATURES[name])
        except adbc.Error as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    await_true(lambda: bool(provider.chats))
    ann.adbc_cancel()
    thread.join()
    root = served.log_in("root")
    await_true(lambda: fetched(root, RUNNING) == ["(0,)"])  # the endpoint still holds its reply back
    assert "cancel" in said[0].lower()
    assert HIDDEN not in said[0]
    sent = set(provider.chats)
    assert len(sent) == 1
    served.gate.set()
    asked = "SELECT ai_gen('What is it?', 'a text of bob')"
    assert fetched(served.log_in("bob"), asked)
    assert all("a text of bob" in prompt for prompt in set(provider.chats) - sent)
    assert fetched(ann, "SELECT count(*) FROM reviews") == ["(8,)"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FEATURES)
def test_a_mask_with_a_budget(name: str, served: Served) -> None:
    """A budget holds for a user with a mask: neither its error nor a prompt has a word that the mask hides."""
    bob, provider = served.log_in("bob"), served.provider
    bob.execute("SET flightllm.max_calls = 1")
    with pytest.raises(adbc.Error, match=r"flightllm\.max_calls is 1") as error:
        fetched(bob, FEATURES[name])
    assert HIDDEN not in str(error.value)
    assert provider.chats.total() <= 1
    assert not [prompt for prompt in provider.chats if HIDDEN in prompt]
    bob.execute("SET flightllm.max_calls = 'none'")
    assert fetched(bob, FEATURES[name])
    assert not [prompt for prompt in provider.chats if HIDDEN in prompt]


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["on", "off"])
@pytest.mark.parametrize("name", JOINS)
def test_a_join_of_a_user_with_both(name: str, optimizer: str, served: Served) -> None:
    """A join by a user with a row filter and a mask has the pairs of the rows and texts that this user sees."""
    cat, root = served.log_in("cat"), served.log_in("root")
    for cursor in (cat, root):
        cursor.execute(f"SET flightllm.optimizer = '{optimizer}'")
    found = fetched(cat, FEATURES[name])
    assert served.provider.chats
    assert not [prompt for prompt in served.provider.chats if HIDDEN in prompt]
    assert found == fetched(root, FEATURES[name].replace("reviews", "seen_by_cat"))
