"""Health, readiness and metrics of a real server, over HTTP."""

import http.client
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from adbc_driver_manager import Error
from prometheus_client.parser import text_string_to_metric_families

from flightllm.common.fair_queue import Requester
from flightllm.config import HttpConfig, LimitsConfig
from flightllm.engines.observed import Health
from flightllm.errors import ConfigError
from flightllm.flight.server import FlightSqlServer
from flightllm.operators.answer_store import count_answers
from flightllm.session.database import Database
from flightllm.web.http_server import HttpServer
from tests.servers import ask, cursor_of, serving

LOCAL = HttpConfig("127.0.0.1:0")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FlightSqlServer]:
    """Serve with an engine that dies after a hundred answers."""
    with serving(tmp_path, LimitsConfig(sql_terms=50), die_after=100, cache_blocks=100) as server:
        yield server


@pytest.fixture
def database(server: FlightSqlServer) -> Database:
    """Return the server's database."""
    database = server._core.database
    assert isinstance(database, Database)
    return database


def _get(http_server: HttpServer, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection((http_server.uri or "").removeprefix("http://"), timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def _metrics(http_server: HttpServer) -> dict[str, float]:
    """Return every sample by its name and labels."""
    status, text = _get(http_server, "/metrics")
    assert status == 200
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_what_the_system_tables_say(server: FlightSqlServer, database: Database) -> None:
    """After real queries every figure equals that of `system.queries` and `system.cache`."""
    with HttpServer(LOCAL, database, server) as http_server:
        with cursor_of(server) as cursor:
            for _ in range(2):
                ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t WHERE n <= 20")
            ask(cursor, "SELECT n FROM t")
            with pytest.raises(Error):
                ask(cursor, "SELECT CAST('x' AS INT)")
            with pytest.raises(Error, match="sql_terms"):
                ask(cursor, f"SELECT {'+'.join('1' * 100)}")
        # Not as a query, which would be one more.
        rows = [row for row in database.queries.snapshot("queries").to_pylist() if row["status"] != "planned"]
        cache = database.cache.stats()
        found = _metrics(http_server)
        open_sessions = len(server._core.sessions)
    for kind, status in {(row["kind"], row["status"]) for row in rows}:
        count = sum((row["kind"], row["status"]) == (kind, status) for row in rows)
        assert found[f"flightllm_statements_total kind={kind} status={status}"] == count
    sums = {
        "calls": "ai_calls",
        "cache_hits": "ai_answers_reused",
        "rows": "rows",
        "bytes": "result_bytes",
        "prompt_tokens": "prompt_tokens",
        "cached_tokens": "cached_tokens",
        "completion_tokens": "completion_tokens",
    }
    for column, metric in sums.items():
        assert found[f"flightllm_{metric}_total"] == sum(row[column] for row in rows)
    assert (found["flightllm_ai_calls_total"], found["flightllm_ai_answers_reused_total"]) == (20, 20)
    ratio = found["flightllm_cached_tokens_total"] / found["flightllm_prompt_tokens_total"]
    assert found["flightllm_prefix_hit_ratio"] == pytest.approx(ratio)
    assert found["flightllm_cache_hits_total"] == cache.hits
    assert found["flightllm_statement_duration_seconds_count"] == len(rows)
    assert found["flightllm_statement_duration_seconds_bucket le=+Inf"] == len(rows)
    assert found["flightllm_statement_duration_seconds_sum"] == pytest.approx(sum(row["seconds"] for row in rows))
    assert found["flightllm_refusals_total limit=sql_terms"] == 1
    assert found["flightllm_refusals_total limit=statement_seconds"] == 0
    assert found["flightllm_sessions"] == open_sessions
    assert (found["flightllm_engine_up"], found["flightllm_engine_in_flight"]) == (1, 0)
    assert found["flightllm_statements_limit"] == 64
    assert found["flightllm_queue_wait_seconds_count"] >= len(rows)
    assert found["flightllm_threads"] > 5
    assert found["flightllm_spilled_bytes_total"] == 0
    assert found["flightllm_table_cache_bytes"] == database.decoded.bytes
    assert found["flightllm_table_cache_misses_total"] == database.decoded.misses
    assert found["process_open_fds"] > 5


def test_scrapes_count_the_answers_once_in_a_while(
    server: FlightSqlServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metrics asked for again soon do not go through the cached answers again, unless they were all forgotten."""
    counts: list[int] = []

    def counted(kept: sqlite3.Connection) -> int:
        counts.append(count_answers(kept))
        return counts[-1]

    monkeypatch.setattr("flightllm.operators.cache.count_answers", counted)
    with HttpServer(LOCAL, database, server) as http_server, cursor_of(server) as cursor:
        ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t WHERE n <= 20")
        database.cache.flush()
        assert [_metrics(http_server)["flightllm_cache_entries"] for _ in range(3)] == [20] * 3
        assert counts == [20]
        assert database.cache.stats().entries == 20
        assert counts == [20, 20]
        cursor.execute("TRUNCATE TABLE system.cache")
        assert _metrics(http_server)["flightllm_cache_entries"] == 0


def test_what_cannot_be_stopped_is_counted(server: FlightSqlServer, database: Database) -> None:
    """Work that goes on though nobody waits for it is told while it goes on, and so are statements run apart."""
    with HttpServer(LOCAL, database, server) as http_server:

        def told() -> list[float]:
            found = _metrics(http_server)
            return [found[f"flightllm_{name}"] for name in ("statements_left_behind", "isolated_processes")]

        place = server._core.slots.take(Requester("ann", ""), lambda: False)
        assert told() == [0, 0]
        place.left_behind()
        assert told() == [1, 0]
        place.release()
        place.left_behind()  # too late: it ended in the meantime
        rows = "SELECT repeat(CAST(value AS VARCHAR), 10000) AS x FROM generate_series(1, 20)"
        result = database.session().execute(rows)
        assert told() == [0, 0]
        next(iter(result.batches))
        assert told() == [0, 1]
        result.batches.close()
        assert told() == [0, 0]


def test_a_running_query_counts(server: FlightSqlServer, database: Database) -> None:
    """What a query counted so far is in the metrics before it has ended, and not twice afterwards."""
    record = database.queries.start("SELECT 1")
    call = record.call_site("ai_gen", "ai_gen('x')")
    with HttpServer(LOCAL, database, server) as http_server:
        call.add(calls=3, prompt_tokens=30)
        assert _metrics(http_server)["flightllm_ai_calls_total"] == 3
        call.add(calls=1)
        record.finish("done")
        assert _metrics(http_server)["flightllm_ai_calls_total"] == 4


def test_call_sites_and_models(server: FlightSqlServer, database: Database) -> None:
    """Each call site has its calls and tokens under the name that `system.ai_calls` shows, and each model its times."""
    with HttpServer(LOCAL, database, server) as http_server, cursor_of(server) as cursor:
        ask(cursor, "SELECT ai_gen('Of {n}?', n), ai_filter('Is {n} even?', n) FROM t WHERE n <= 20")
        ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t WHERE n <= 30")
        rows = database.queries.snapshot("ai_calls").to_pylist()
        found = _metrics(http_server)
    assert len(rows) == 3
    assert len({row["site"] for row in rows}) == 2
    for site, function in {(row["site"], row["function"]) for row in rows}:
        own = [row for row in rows if row["site"] == site]
        labels = f"function={function} model=default site={site}"
        for column in ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "failed_rows"):
            assert found[f"flightllm_site_{column}_total {labels}"] == sum(row[column] for row in own)
    assert sum(row["calls"] for row in rows) == 50
    assert found["flightllm_model_call_duration_seconds_count model=default"] == 50
    assert found["flightllm_model_call_duration_seconds_bucket le=+Inf model=default"] == 50
    assert found["flightllm_model_call_duration_seconds_sum model=default"] > 0


def test_no_text_of_users_is_in_the_metrics(server: FlightSqlServer, database: Database) -> None:
    """Neither SQL nor prompts nor answers nor sessions' ids come out, which anybody here may read."""
    with HttpServer(LOCAL, database, server) as http_server, cursor_of(server) as cursor:
        ask(cursor, "SELECT ai_gen('Of {n} secretly?', n) AS hidden FROM t WHERE n <= 2")
        text = _get(http_server, "/metrics")[1]
        session = database.sessions.records()[-1].session_id
    assert [word for word in ("secretly", "hidden", "SELECT", session) if word in text] == []


def test_no_other_site_reads_the_metrics(server: FlightSqlServer, database: Database) -> None:
    """A site that points its name at this machine gets no metrics; probes work under every name."""
    config = HttpConfig("127.0.0.1:0", hosts=("scraped.example",))
    with HttpServer(config, database, server) as http_server:
        assert _get(http_server, "/metrics", Host="evil.example")[0] == 403
        assert "hosts in [http]" in _get(http_server, "/metrics", Host="evil.example:9090")[1]
        assert _get(http_server, "/metrics", Host="scraped.example:9090")[0] == 200
        assert _get(http_server, "/metrics", Host="localhost")[0] == 200
        assert _get(http_server, "/healthz", Host="evil.example")[0] == 200


def test_readiness(server: FlightSqlServer, database: Database) -> None:
    """A server whose engine is gone, or that is shutting down, says that it is not ready; it lives all the same."""
    with HttpServer(LOCAL, database, server) as http_server:
        assert [_get(http_server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        with cursor_of(server) as cursor, pytest.raises(Error, match="died"):
            ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t")
        status, text = _get(http_server, "/readyz")
        assert (status, json.loads(text)) == (503, {"status": "the engine is down"})
        assert _metrics(http_server)["flightllm_engine_up"] == 0
        server.drain(0)
        assert json.loads(_get(http_server, "/readyz")[1]) == {"status": "draining"}
        assert _get(http_server, "/healthz")[0] == 200
        http_server.close()
        with pytest.raises(ConnectionRefusedError):
            _get(http_server, "/healthz")


def test_a_failure_is_forgotten() -> None:
    """An engine that was gone is tried again after a while, and at once where it answers somebody."""
    clock = SimpleNamespace(now=0.0)
    health = Health(lambda: clock.now)
    health.failed()
    assert not health.up
    clock.now = 31.0
    assert health.up
    health.failed()
    health.answered()
    assert health.up


def test_where_others_reach_it(server: FlightSqlServer, database: Database) -> None:
    """On an address of the network, metrics are served only where the configuration says so."""
    everywhere = HttpConfig("0.0.0.0:0")
    for config, status in ((everywhere, 404), (HttpConfig("0.0.0.0:0", metrics=True), 200)):
        with HttpServer(config, database, server) as http_server:
            http_server.uri = (http_server.uri or "").replace("0.0.0.0", "127.0.0.1")  # noqa: S104
            found, text = _get(http_server, "/metrics")
            assert (found, "metrics = true in [http]" in text) == (status, status == 404)
            assert _get(http_server, "/readyz")[0] == 200


def test_off_unless_configured(server: FlightSqlServer, database: Database) -> None:
    """Without an address nothing is served, and nothing needs the extra."""
    with HttpServer(HttpConfig(), database, server) as http_server:
        assert http_server.uri is None


def test_an_address_in_use(server: FlightSqlServer, database: Database) -> None:
    """The error names the key and the address."""
    with HttpServer(LOCAL, database, server) as first:
        address = (first.uri or "").removeprefix("http://")
        with pytest.raises(ConfigError, match=rf"\[http\] listen: cannot listen on {address}"):
            HttpServer(HttpConfig(address), database, server)
    with pytest.raises(ConfigError, match=r"\[http\] listen: expected HOST:PORT"):
        HttpConfig("9090")


def test_replicas(tmp_path: Path) -> None:
    """Of a cluster each replica has its figures, and the engine's window is that of all."""
    replicas = [{"kind": "fake", "cache_blocks": 50}, {"kind": "fake", "cache_blocks": 50}]
    with serving(tmp_path, kind="cluster", replicas=replicas, policy="round_robin") as server:
        database = server._core.database
        assert isinstance(database, Database)
        with HttpServer(LOCAL, database, server) as http_server, cursor_of(server) as cursor:
            ask(cursor, "SELECT ai_gen('Of {n}?', n) FROM t WHERE n <= 20")
            found = _metrics(http_server)
    assert found["flightllm_engine_max_in_flight"] == 16
    assert found["flightllm_replica_up model=default replica=fake 1"] == 1
    assert found["flightllm_replica_waiting model=default replica=fake 0"] == 0
    assert found["flightllm_replica_prefix_hit_ratio model=default replica=fake 0"] >= 0
