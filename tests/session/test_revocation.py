"""Statements that run, or wait to be fetched, while their users lose rights."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest

from flightllm.access.store import User
from flightllm.client import Client
from flightllm.config import ServerConfig
from flightllm.errors import FlightLLMError, PermissionDeniedError, UnauthenticatedError
from flightllm.flight.server import FlightSqlServer
from flightllm.session.database import Database
from flightllm.session.revocation import Revocation
from flightllm.session.session import QueryResult, Session
from tests.databases import open_database, rows

ROWS = 300_000
READING = "SELECT n, concat('row ', n) AS text FROM t"
LOSSES = {
    "a grant": "REVOKE SELECT ON t FROM bob",
    "a group's grant": "REVOKE SELECT ON SCHEMA s FROM staff",
    "the model": "REVOKE USAGE ON MODEL default FROM user",
    "rows": "CREATE ROW FILTER ON t TO bob AS n < 5",
    "values": "CREATE COLUMN MASK ON t(n) TO staff AS 0",
    "the role": User("bob", "readonly", frozenset({"staff"})),
    "the group": User("bob", "user"),
}
NO_LOSSES = {
    "a grant to another": "REVOKE SELECT ON t FROM eve",
    "one more grant": "GRANT INSERT ON other TO bob",
    "a grant that the schema's covers": "REVOKE SELECT ON s.x FROM bob",
    "what is dropped": "DROP TABLE other",
    "a higher role": User("bob", "admin", frozenset({"staff"})),
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Open a database with a table of more rows than a client is sent ahead, which bob may read."""
    database = open_database(tmp_path, {"latency_ms": 50.0}, window=1)
    admin, store = database.session(), database.access.store
    admin.update("CREATE SCHEMA s")
    for name, count in (("t", ROWS), ("other", 10), ("s.x", 10)):
        admin.update(f"CREATE TABLE {name} AS SELECT value AS n FROM generate_series(1, {count})")
    store.add_user(User("bob", "user", frozenset({"staff"})))
    store.add_user(User("eve", "user"))
    for grant in ("SELECT ON t TO bob", "SELECT ON s.x TO bob", "SELECT ON SCHEMA s TO staff", "SELECT ON t TO eve"):
        admin.update(f"GRANT {grant}")
    admin.update("GRANT ALL ON other TO bob")
    admin.update("GRANT CREATE ON SCHEMA public TO bob")
    admin.update("CREATE ROW FILTER ON other TO bob AS n > 5")
    yield database
    database.close()


def change(database: Database, to: str | User | None) -> None:
    """Run a statement of an admin's, put a user in place of the one of its name, or drop bob."""
    if isinstance(to, str):
        database.session().update(to)
    elif to is None:
        database.access.store.drop_user("bob")
    else:
        database.access.store.change_user(to)


def bob(database: Database) -> Session:
    """Open a session of bob's."""
    return database.session(database.access.store.user("bob").principal)


@pytest.fixture(params=["unfetched", "half read"])
def result(database: Database, request: pytest.FixtureRequest) -> QueryResult:
    """Return a result that waits, or one whose client has some of its rows."""
    result = bob(database).execute(READING)
    if request.param == "half read":
        next(result.batches)
    return result


@pytest.mark.parametrize("to", LOSSES.values(), ids=LOSSES.keys())
def test_a_loss_stops_a_query(database: Database, result: QueryResult, to: str | User) -> None:
    """The next rows are refused, as a failure that says why."""
    change(database, to)
    assert result.query.cancelled.wait(30)
    with pytest.raises(PermissionDeniedError, match=r"your rights changed while the statement ran: run it again"):
        list(result.batches)
    assert result.query.row()["status"] == "failed"


def test_a_dropped_user_gets_no_more(database: Database, result: QueryResult) -> None:
    """Nor does another user's query end by that."""
    others = database.session(database.access.store.user("eve").principal).execute(READING)
    change(database, None)
    assert result.query.cancelled.wait(30)
    with pytest.raises(UnauthenticatedError, match="'bob' is no longer a user of this server"):
        list(result.batches)
    assert sum(batch.num_rows for batch in others.batches) == ROWS


@pytest.mark.parametrize("to", NO_LOSSES.values(), ids=NO_LOSSES.keys())
def test_what_still_holds_goes_on(database: Database, result: QueryResult, to: str | User) -> None:
    """Other rights than those that a query was planned under, more of them, and objects dropped with theirs."""
    change(database, to)
    Revocation(database._services, database.queries).look()
    assert not result.query.stopped
    assert list(result.batches)


def test_a_query_without_rows_yet(database: Database) -> None:
    """One that asks a model for hours is stopped while it waits for answers."""
    result = bob(database).execute("SELECT count(ai_gen('What of {n}?', n)) AS c FROM t")
    failures: list[FlightLLMError] = []

    def read() -> None:
        try:
            list(result.batches)
        except FlightLLMError as error:
            failures.append(error)

    reader = Thread(target=read)
    reader.start()
    change(database, None)
    reader.join(60)
    assert [type(error) for error in failures] == [UnauthenticatedError]


def test_changes_are_stopped_too(database: Database) -> None:
    """An upload and a statement of a user who may not make tables any more leave nothing behind."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        change(database, "REVOKE CREATE ON SCHEMA public FROM bob")
        Revocation(database._services, database.queries).look()
        yield pa.record_batch({"a": [2]})

    session = bob(database)
    with pytest.raises(PermissionDeniedError, match="your rights changed"):
        session.ingest("mine", batches(), pa.schema([("a", pa.int64())]), "create")
    change(database, "GRANT CREATE ON SCHEMA public TO bob")
    failures: list[FlightLLMError] = []

    def create() -> None:
        try:
            session.update("CREATE TABLE mine AS SELECT ai_gen('What of {n}?', n) AS a FROM t")
        except FlightLLMError as error:
            failures.append(error)

    thread = Thread(target=create)
    thread.start()
    while not any(record.kind == "create_table_as" for record in database.queries.running()):
        assert thread.is_alive()
    change(database, "REVOKE CREATE ON SCHEMA public FROM bob")
    thread.join(60)
    assert [type(error) for error in failures] == [PermissionDeniedError]
    assert rows(database.session(), "SELECT table_name FROM information_schema.tables WHERE table_name = 'mine'") == []


def test_a_client_that_reads_on(database: Database) -> None:
    """Its stream ends before its end, with the reason; what waited to be sent is not."""
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), login=database.access.login)
    headers = {"authorization": f"Bearer {database.access.store.add_token('bob')}"}
    try:
        with Client(server.uri, headers) as client:
            batches = client.query("SELECT n, repeat('x', 1000) AS text FROM t")[1]
            next(batches)
            [record] = [one for one in database.queries.running() if one.user == "bob"]
            change(database, "REVOKE SELECT ON t FROM bob")
            assert record.cancelled.wait(30)
            with pytest.raises(PermissionDeniedError, match="your rights changed while the statement ran"):
                list(batches)
    finally:
        server.drain(0)
