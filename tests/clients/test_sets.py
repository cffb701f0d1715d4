"""Each feature over sets through real clients: rows, rights, budgets, cancelling, EXPLAIN, stored rows and records."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as adbc
import pytest

from flightllm.access.store import User
from flightllm.config import Config, EmbeddingConfig, EngineConfig, PostgresConfig, ServerConfig
from flightllm.flight.server import FlightSqlServer
from flightllm.postgres.server import PostgresServer
from flightllm.session.database import Database
from tests.databases import ask
from tests.postgres.support import PASSWORD, Place
from tests.servers import await_true

PAIRS = (
    "SELECT a.id, b.id AS other FROM reviews a JOIN reviews b"
    " ON a.id <> b.id AND ai_filter('{{x}} and {{y}} agree', x => a.body, y => b.body{})"
)
RANK = "SELECT id, ai_rank('most urgent first', body, method => '{}') AS r FROM reviews"
FEATURES = {
    "agg": "SELECT product, ai_agg(body, 'What?') AS a FROM reviews GROUP BY product",
    "summarize": "SELECT product, ai_summarize_agg(body) AS a FROM reviews GROUP BY product",
    "rank": RANK.format("pointwise"),
    "listwise": RANK.format("listwise"),
    "pairwise": RANK.format("pairwise"),
    "compare": "SELECT id, ai_compare('Which is kinder?', body, product, both_orders => true) AS a FROM reviews",
    "topic": "SELECT ai_topic(body, k => 3) AS topic, count(*) AS n FROM reviews GROUP BY 1",
    "cluster": "SELECT ai_cluster(body, k => 3) AS cluster, count(*) AS n FROM reviews GROUP BY 1",
    "dedup": "SELECT ai_dedup(body) AS thing, count(*) AS n FROM reviews GROUP BY 1",
    "match": "SELECT a.id, b.id AS other FROM reviews a JOIN reviews b ON ai_match(a.body, b.body)",
    "count": "SELECT product, approx_ai_count('Good? {body}', body) AS n FROM reviews GROUP BY product",
    "avg": "SELECT approx_ai_avg('How good? {body}', body) AS n FROM reviews",
    "sum": "SELECT approx_ai_sum('How good? {body}', body) AS n FROM reviews",
    "pairs": PAIRS.format(""),
    "symmetric": PAIRS.format(", symmetric => true"),
    "map": PAIRS.format(", strategy => 'map'"),
    "pivot": PAIRS.format(", strategy => 'pivot'"),
}
"""A query of each feature."""
DEPENDENT = ("listwise", "pairwise", "topic", "dedup", "map", "pivot")
"""The calls of these depend on the answers, which nobody can predict for an engine that answers at random."""
WHOLE = ("listwise", "pairwise", "topic", "cluster", "dedup")
"""These need the optimizer."""
HIDDEN = "secret"

SHORT = ("agg", "topic", "symmetric")
"""The features that the fast tests show everything of."""


def _param(name: str) -> Any:
    return pytest.param(name, marks=() if name in SHORT else pytest.mark.slow)


each = pytest.mark.parametrize("name", FEATURES)
most = pytest.mark.parametrize("name", [_param(name) for name in FEATURES])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the database and the engine's log."""
    return tmp_path_factory.mktemp("sets")


@pytest.fixture(scope="module")
def database(folder: Path) -> Iterator[Database]:
    """Open a database with reviews of which a user sees a part, and with a table of this part."""
    engine = EngineConfig("fake", "demo", 8, {"log_path": str(folder / "log.jsonl")})
    database = Database.open(Config(engine=engine, embedding=EmbeddingConfig("fake"), data_folder=folder))
    admin, store = database.session(), database.access.store
    admin.update(
        f"""CREATE TABLE reviews AS SELECT value AS id, CASE WHEN value % 2 = 0 THEN 'tea' ELSE 'pot' END AS product,
            CASE WHEN value > 8 THEN '{HIDDEN} words ' ELSE 'some words ' END || value || ' about it' AS body
            FROM generate_series(1, 12)"""
    )
    admin.update("CREATE TABLE seen AS SELECT * FROM reviews WHERE id <= 8")
    for user in (User("root", "admin"), User("ann", "user"), User("bob", "user")):
        store.add_user(user, PASSWORD)
    admin.update("GRANT SELECT ON reviews TO ann")
    admin.update("CREATE ROW FILTER ON reviews TO ann AS id <= 8")
    admin.update("GRANT SELECT ON reviews TO bob")
    admin.update(f"CREATE COLUMN MASK ON reviews(body) TO bob AS replace(body, '{HIDDEN}', 'other')")
    admin.update(f"CREATE TABLE masked AS SELECT id, product, replace(body, '{HIDDEN}', 'other') AS body FROM reviews")
    yield database
    database.close()


@pytest.fixture(scope="module")
def server(database: Database) -> Iterator[FlightSqlServer]:
    """Run the Flight SQL server."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    yield server
    server.drain(0)


Log = Callable[[str], Any]


@pytest.fixture(scope="module")
def log_in(server: FlightSqlServer, database: Database) -> Iterator[Log]:
    """Return how a user opens a cursor."""
    opened: list[Any] = []

    def connect(name: str) -> Any:
        header = f"Bearer {database.access.store.add_token(name)}"
        kwargs = {"adbc.flight.sql.authorization_header": header}
        opened.append(adbc.connect(server.uri, db_kwargs=kwargs, autocommit=True))
        return opened[-1].cursor()

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def cursor(log_in: Log) -> Iterator[Any]:
    """Connect an administrator without kept answers."""
    with log_in("root") as cursor:
        cursor.execute("TRUNCATE TABLE system.cache")
        yield cursor


@pytest.fixture
def prompts(folder: Path) -> Callable[[], Sequence[str]]:
    """Return how to read the prompts that the engine got in this test."""
    log = folder / "log.jsonl"
    before = log.stat().st_size if log.exists() else 0

    def read() -> Sequence[str]:
        text = log.read_bytes()[before:].decode() if log.exists() else ""
        return [json.loads(line)["prompt"] for line in text.splitlines()]

    return read


def fetched(cursor: Any, sql: str, parameters: Any = None) -> list[str]:
    """Return the rows of a query in a fixed order."""
    cursor.execute(sql, parameters)
    return in_order(cursor.fetchall())


def in_order(rows: Sequence[Any]) -> list[str]:
    """Return rows as texts, in the order of these."""
    return sorted(repr(tuple(round(one, 9) if isinstance(one, float) else one for one in row)) for row in rows)


def in_process(database: Database, sql: str) -> list[str]:
    """Return the rows of a session in this process."""
    return in_order([tuple(row.values()) for row in ask(database.session(), sql, cache="off").rows])


@each
def test_rows_and_figures(name: str, cursor: Any, database: Database, prompts: Callable[[], Sequence[str]]) -> None:
    """The rows are those of a session in process; the prediction, the record and the engine agree about the calls."""
    sql = FEATURES[name]
    if name == "cluster":
        fetched(cursor, f"EXPLAIN {sql}")  # it makes the vectors, which the next one finds
    cursor.execute(f"EXPLAIN (FORMAT json) {sql}")
    predicted = json.loads(cursor.fetchone()[-1])["total"]["predicted"]["calls"]
    assert prompts() == []
    found = fetched(cursor, sql)
    sent = len(prompts())
    assert found
    cursor.execute(
        "SELECT sum(calls) FROM system.ai_calls WHERE query_id ="
        " (SELECT query_id FROM system.queries WHERE sql = ? ORDER BY started_at DESC LIMIT 1)",
        (sql,),
    )
    assert cursor.fetchone() == (sent,)
    assert name in DEPENDENT or predicted == sent
    assert fetched(cursor, sql) == found
    assert len(prompts()) == sent
    assert in_process(database, sql) == found


@most
def test_without_the_optimizer(name: str, cursor: Any) -> None:
    """The rows are the same, or the error says what the method needs."""
    found = fetched(cursor, FEATURES[name])
    cursor.execute("SET flightllm.optimizer = 'off'")
    if name in WHOLE:
        with pytest.raises(adbc.Error, match=r"needs all rows .*at once.*set it to 'on'"):
            fetched(cursor, FEATURES[name])
    elif name != "symmetric":  # without the optimizer, a model that answers at random is asked both orders
        assert fetched(cursor, FEATURES[name]) == found


@most
def test_explain_analyze(name: str, cursor: Any) -> None:
    """EXPLAIN ANALYZE runs the query and has both figures."""
    cursor.execute(f"EXPLAIN ANALYZE {FEATURES[name]}")
    plan = "\n".join(row[-1] for row in cursor.fetchall())
    assert re.search(r"^predicted .*\n(.*\n)*actual ", plan, re.MULTILINE)


@most
def test_a_row_filter(name: str, log_in: Log, cursor: Any, prompts: Callable[[], Sequence[str]]) -> None:
    """A user gets the set of the visible rows, and no prompt has a text of another row."""
    with log_in("ann") as ann:
        found = fetched(ann, FEATURES[name])
        assert prompts()
        assert not [prompt for prompt in prompts() if HIDDEN in prompt]
    assert found == fetched(cursor, FEATURES[name].replace("reviews", "seen"))


@most
def test_a_mask(name: str, log_in: Log, cursor: Any, prompts: Callable[[], Sequence[str]]) -> None:
    """A user with a mask gets the set of the masked texts, and no prompt has a word that the mask hides."""
    with log_in("bob") as bob:
        found = fetched(bob, FEATURES[name])
        assert prompts()
        assert not [prompt for prompt in prompts() if HIDDEN in prompt]
    assert found == fetched(cursor, FEATURES[name].replace("reviews", "masked"))


@most
@pytest.mark.usefixtures("cursor")
def test_a_restricted_users_budget(name: str, log_in: Log, prompts: Callable[[], Sequence[str]]) -> None:
    """A budget holds for a user with a row filter, whose error tells nothing of the hidden rows."""
    with log_in("ann") as ann:
        ann.execute("SET flightllm.max_calls = 1")
        with pytest.raises(adbc.Error, match=r"flightllm\.max_calls is 1") as error:
            fetched(ann, FEATURES[name])
        assert HIDDEN not in str(error.value)
    assert len(prompts()) <= 1


@most
def test_a_budget(name: str, cursor: Any, prompts: Callable[[], Sequence[str]]) -> None:
    """A budget below the need ends the statement with the documented error, and the session works on."""
    cursor.execute("SET flightllm.max_calls = 1")
    with pytest.raises(adbc.Error, match=r"flightllm\.max_calls is 1"):
        fetched(cursor, FEATURES[name])
    assert len(prompts()) <= 1
    assert fetched(cursor, "SELECT 1") == ["(1,)"]


@most
def test_delivery_in_batches(name: str, cursor: Any, prompts: Callable[[], Sequence[str]]) -> None:
    """An engine without batches is a clear error before the first prompt."""
    cursor.execute("SET flightllm.delivery = 'batch'")
    with pytest.raises(adbc.Error, match="batch"):
        fetched(cursor, FEATURES[name])
    assert prompts() == []


@most
def test_a_prepared_statement(name: str, cursor: Any) -> None:
    """A parameter can stand for a text beside the call."""
    table = "(SELECT * FROM reviews WHERE product <> ?)"
    sql = re.sub(r"FROM reviews\b(?! a)", f"FROM {table} q", FEATURES[name])
    sql = sql.replace("FROM reviews a", f"FROM {table} a")
    assert fetched(cursor, sql, ("none",)) == fetched(cursor, FEATURES[name])


@most
def test_stored_rows(name: str, cursor: Any) -> None:
    """CREATE TABLE AS and INSERT … SELECT store the rows, and a view returns them."""
    sql = FEATURES[name]
    found = fetched(cursor, sql)
    cursor.execute(f"CREATE OR REPLACE TABLE kept AS {sql}")
    assert fetched(cursor, "SELECT * FROM kept") == found
    cursor.execute(f"INSERT INTO kept {sql}")
    assert fetched(cursor, "SELECT count(*) FROM kept") == [f"({2 * len(found)},)"]
    cursor.execute(f"CREATE OR REPLACE VIEW kept_view AS {sql}")
    assert fetched(cursor, "SELECT * FROM kept_view") == found


@pytest.fixture(scope="module")
def postgres(server: FlightSqlServer) -> Iterator[Place]:
    """Serve PostgreSQL's protocol beside it."""
    with PostgresServer(PostgresConfig("127.0.0.1:0"), server.core) as place:
        yield Place(place.port or 0)


@most
def test_postgres(name: str, cursor: Any, postgres: Place) -> None:
    """A client of PostgreSQL gets as many rows with the same answers."""
    cursor.execute(FEATURES[name])
    table = cursor.fetch_arrow_table()
    found = postgres.rows(FEATURES[name], user="root", password=PASSWORD)
    plain = [
        name
        for name, type_ in zip(table.schema.names, table.schema.types, strict=True)
        if not str(type_).startswith("struct")
    ]
    kept = [table.schema.names.index(name) for name in plain]
    assert in_order([[row[place] for place in kept] for row in found]) == in_order(
        [list(row.values()) for row in table.select(plain).to_pylist()]
    )


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Any]]:
    """Serve the same reviews with a slow engine."""
    folder = tmp_path_factory.mktemp("slow")
    engine = EngineConfig("fake", "demo", 1, {"latency_ms": 500.0})
    database = Database.open(Config(engine=engine, embedding=EmbeddingConfig("fake"), data_folder=folder))
    database.session().update(
        """CREATE TABLE reviews AS SELECT value AS id, 'tea' AS product, 'some words ' || value || ' about it' AS body
            FROM generate_series(1, 12)"""
    )
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"))
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        yield database, cursor
    server.drain(0)
    database.close()


@most
def test_cancel(name: str, slow: tuple[Database, Any]) -> None:
    """A client can end the statement between two calls, and the next one works."""
    database, cursor = slow

    def cancel() -> None:
        await_true(lambda: any(record.row()["calls"] for record in database.queries.running()))
        cursor.adbc_cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(adbc.Error, match=r"(?i)cancel"):
        cursor.execute(FEATURES[name]).fetchall()
    thread.join()
    await_true(lambda: not list(database.queries.running()))
    assert fetched(cursor, "SELECT 1") == ["(1,)"]
