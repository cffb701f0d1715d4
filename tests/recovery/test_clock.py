"""The wall clock jumps, back and forth: nothing that waits, keeps or refuses is early, late or lost."""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from pyarrow import flight

from flightllm.flight import endpoints
from flightllm.flight.messages import flight_message
from flightllm.flight.registry import Registry
from flightllm.observe import query_record as records
from flightllm.observe import session_log
from flightllm.operators.cache import AnswerCache
from flightllm.recovery.quarantine import Quarantine, Refused
from tests.databases import ask, open_database, rows, small_database
from tests.flight_messages import descriptor, fetch, prepare, prepared
from tests.servers import ask as ask_rows
from tests.servers import cursor_of, serving

YEAR = 365 * 86_400.0


@pytest.fixture(params=[YEAR, -YEAR], ids=["forth", "back"])
def jump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the wall clock show another year at every second look, as if it were set again and again."""
    clock, looks = time.time, iter(range(1 << 30))
    monkeypatch.setattr(time, "time", lambda: clock() + (next(looks) % 2) * request.param)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time(), tz)

    for module in (records, session_log, endpoints):
        monkeypatch.setattr(module, "datetime", Jumping)
    yield
    assert abs(time.time() - time.time()) > YEAR / 2
    assert abs(Jumping.now() - Jumping.now()) > timedelta(seconds=YEAR / 2)


@pytest.mark.usefixtures("jump")
def test_queries_and_answers(tmp_path: Path) -> None:
    """Queries end, their seconds are right, and answers are kept."""
    with closing(small_database(tmp_path, {"latency_ms": 5.0})) as database:
        session = database.session()
        first = ask(session, "SELECT ai_gen('x', note) FROM people")
        again = ask(session, "SELECT ai_gen('x', note) FROM people")
        assert (first.calls, again.calls, again.cache_hits) == (4, 0, 4)
        assert 0 <= first.record.row()["seconds"] < 60
        known = ask(session, "SELECT count(*) AS n, count(started_at) AS m FROM system.queries WHERE status = 'done'")
        assert known.rows == [{"n": 5, "m": 5}]


@pytest.mark.usefixtures("jump")
def test_a_ticket_put_off(tmp_path: Path) -> None:
    """A ticket whose end a client puts off is there afterwards, whatever date it is told."""
    with serving(tmp_path) as server, flight.connect(server.uri) as client:
        info = client.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
        request = flight_message("RenewFlightEndpointRequest", endpoint=info.endpoints[0].serialize())
        assert list(client.do_action(flight.Action("RenewFlightEndpoint", request.SerializeToString())))
        assert client.do_get(info.endpoints[0].ticket).read_all().to_pylist() == [{"a": 1}]


@pytest.mark.usefixtures("jump")
def test_what_expires(tmp_path: Path) -> None:
    """Handles and refused statements live as long as they are to, and answers are written."""
    registry: Registry[str] = Registry("thing", 10, 60.0)
    handle = registry.add("value")
    registry.add("other")
    assert registry.get(handle) == "value"
    quarantine = Quarantine([Refused(b"a", "SELECT 1", "", time.monotonic() + 60)])
    assert len(quarantine.current()) == 1
    cache = AnswerCache(tmp_path / "answers.sqlite")
    cache.put(b"k", "x")
    cache.flush()
    assert not cache._waiting
    cache.close()


@pytest.mark.parametrize("hours", [1, 30, -30])
def test_a_clock_set_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    """Sessions, prepared statements, planned results, rows and answers are there after the clock was set."""
    clock = time.time
    ask_model = "SELECT count(ai_gen('Of {n}?', n)) FROM t WHERE n < 9"
    with serving(tmp_path) as server, cursor_of(server) as cursor, flight.connect(server.uri) as client:
        ask_rows(cursor, "SET flightllm.max_calls = 77")
        ask_rows(cursor, ask_model)
        handle = prepare(client, "SELECT 2 AS a").prepared_statement_handle
        planned = client.get_flight_info(descriptor("CommandStatementQuery", query="SELECT 1 AS a"))
        ask_rows(cursor, "CREATE TABLE made AS SELECT 1 AS a")
        monkeypatch.setattr(time, "time", lambda: clock() + hours * 3_600)
        ask_rows(cursor, "INSERT INTO made VALUES (2)")
        assert fetch(client, prepared(handle)).to_pylist() == [{"a": 2}]
        assert client.do_get(planned.endpoints[0].ticket).read_all().to_pylist() == [{"a": 1}]
        assert ask_rows(cursor, "SHOW flightllm.max_calls")[0][1] == "77"
        assert ask_rows(cursor, ask_model) == [(8,)]
        calls = "SELECT calls FROM system.ai_calls ORDER BY calls"
        assert ask_rows(cursor, calls) == [(0,), (8,)]
    with closing(open_database(tmp_path)) as database:
        assert rows(database.session(), "SELECT a FROM made ORDER BY a") == [{"a": 1}, {"a": 2}]
