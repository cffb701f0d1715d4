"""The table about the answer cache, and the statement that empties it."""

from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import pytest

from flightllm.config import CacheConfig, ServerConfig
from flightllm.errors import FlightLLMError
from flightllm.flight.server import FlightSqlServer
from tests.databases import ask, open_database, small_database

STATS = "SELECT entries, hits, misses FROM system.cache"


def test_cache(tmp_path: Path) -> None:
    """One row counts the answers kept and how often one was known; nothing but the cache is emptied by TRUNCATE."""
    database = small_database(tmp_path)
    session = database.session()
    sql = "SELECT ai_gen('x', note) FROM people"
    for _ in range(2):
        ask(session, sql)
    assert ask(session, STATS).rows == [{"entries": 4, "hits": 4, "misses": 4}]
    (row,) = ask(session, "SELECT bytes, max_bytes FROM system.cache").rows
    assert 0 < row["bytes"] < row["max_bytes"] == 4 << 30
    listed = ask(session, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'system'").rows
    assert {"table_name": "cache"} in listed
    assert session.is_update("TRUNCATE system.cache")
    assert session.update("truncate table flightllm.SYSTEM.Cache;") == 4
    assert ask(session, "SELECT entries FROM system.cache").rows == [{"entries": 0}]
    assert ask(session, sql).calls == 4
    assert session.update("TRUNCATE system.cache") == 4
    database.close()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("TRUNCATE TABLE cache", "there is no table 'cache'"),
        ("TRUNCATE system.queries", "'system.queries' belongs to the server and can only be read"),
        ("DELETE FROM system.cache", "system"),
    ],
)
def test_others_are_refused(tmp_path: Path, sql: str, message: str) -> None:
    """No other statement empties the cache, and TRUNCATE empties no other table of the server."""
    database = small_database(tmp_path)
    with pytest.raises(FlightLLMError, match=message):
        database.session().update(sql)
    database.close()


def test_without_cache(tmp_path: Path) -> None:
    """A server that keeps no answers on disk shows and forgets those of its own time."""
    database = small_database(tmp_path, cache=CacheConfig(enabled=False))
    session = database.session()
    ask(session, "SELECT ai_gen('x', note) FROM people")
    assert ask(session, STATS).rows[0]["entries"] == 4
    assert session.update("TRUNCATE system.cache") == 4
    database.close()


def test_by_a_client(tmp_path: Path) -> None:
    """A client empties the cache by an update statement, and reads its figures by a query."""
    database = small_database(tmp_path)
    server = FlightSqlServer(database, ServerConfig("127.0.0.1:0"), functions=["ai_gen"])
    with adbc.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT ai_gen('x', note) FROM people")
        assert len(cursor.fetchall()) == 9
        cursor.execute(STATS)
        assert cursor.fetchall() == [(4, 0, 4)]
        cursor.execute("TRUNCATE TABLE system.cache")
        cursor.execute(STATS)
        assert cursor.fetchall() == [(0, 0, 4)]
    server.drain(0)
    database.close()


def test_empty_tables_can_be_sorted(tmp_path: Path) -> None:
    """A system table without rows is a table like any other."""
    database = open_database(tmp_path)
    for name in ("prompts", "vector_indexes", "replicas"):
        assert ask(database.session(), f"SELECT * FROM system.{name} ORDER BY name").rows == []
        assert ask(database.session(), f"SELECT count(*) AS n FROM system.{name}").rows == [{"n": 0}]
    database.close()
