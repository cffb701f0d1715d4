"""Calls with a promise over ADBC, at a server process whose models answer from labels."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import await_true
from tests.simulated import Labels, Model, SimulatedServer

pytest.importorskip("adbc_driver_flightsql")
ROWS = 400
LABELS: Labels = {f"note {i}": i % 4 == 0 for i in range(ROWS)}
KINDS: Labels = {f"note {i}": ("cat", "dog")[i % 2] for i in range(ROWS)}
QUESTIONS = {"Is it good": LABELS, "Classify": KINDS}
FILTER = "ai_filter('Is it good?', t, recall => 0.9, precision => 0.9, proxy => 'small')"
_SECONDS = 30.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedServer]:
    """Return a server with prices, a table of notes, and a slow model."""
    models = {
        "demo": Model(QUESTIONS),
        "small": Model(QUESTIONS, error=0.05, scores="calibrated"),
        "slow": Model(QUESTIONS, error=0.05, scores="calibrated", latency_ms=3_000),
    }
    prices = {"price_input": 10.0, "price_output": 10.0}
    options = {"small": {"price_input": 1.0, "price_output": 1.0}}
    with SimulatedServer(tmp_path_factory.mktemp("promises"), models, prices=prices, options=options) as server:
        server.query(f"CREATE TABLE t AS SELECT value AS i, 'note ' || value AS t FROM generate_series(0, {ROWS - 1})")
        yield server


def figures(server: SimulatedServer, sql: str) -> tuple[list[tuple[Any, ...]], dict[str, Any], dict[str, Any]]:
    """Run a query; return its rows, and the rows of `system.ai_calls` of the model and of its proxy."""
    rows = server.query(sql)
    names = ("model", "rows", "calls", "cache_hits", "prompt_tokens", "promise")
    found = server.query(
        f"""SELECT {", ".join(names)} FROM system.ai_calls WHERE query_id = (SELECT query_id FROM system.queries
        WHERE kind = 'query' AND calls + cache_hits > 0 ORDER BY started_at DESC LIMIT 1) ORDER BY call_site"""
    )
    own, proxy = (dict(zip(names, row, strict=True)) for row in found)
    return rows, own, proxy


def test_rows_calls_and_certified_figures(server: SimulatedServer) -> None:
    """The targets hold, the model's own log agrees with the figures, and a rerun asks nothing."""
    rows, own, proxy = figures(server, f"SELECT i FROM t WHERE {FILTER}")
    found, right = {row[0] for row in rows}, {i for i in range(ROWS) if LABELS[f"note {i}"]}
    promise = own["promise"]
    assert len(found & right) >= 0.9 * max(len(found), len(right))
    assert promise["recall"] <= len(found & right) / len(right)
    assert promise["precision"] <= len(found & right) / len(found)
    assert own["calls"] == promise["asked_prompts"] == len(server.asked()) < 0.7 * ROWS
    assert (proxy["model"], proxy["calls"]) == ("small", len(server.asked("small"))) == ("small", ROWS)
    assert promise["accepted"] == len(rows)
    again, own, proxy = figures(server, f"SELECT i FROM t WHERE {FILTER}")
    assert sorted(again) == sorted(rows)
    assert (own["calls"], proxy["calls"], own["promise"]) == (0, 0, promise)


def test_price_of_both_models(server: SimulatedServer) -> None:
    """The cost of a query has the calls of the model and those of its proxy, each at its own price."""
    server.query("TRUNCATE system.cache")
    _, own, proxy = figures(server, f"SELECT i, {FILTER} AS x FROM t")
    (cost,) = server.query(
        "SELECT cost FROM system.queries WHERE kind = 'query' AND calls > 0 ORDER BY started_at DESC LIMIT 1"
    )
    # an answer has one token
    expected = 10 * (own["prompt_tokens"] + own["calls"]) + proxy["prompt_tokens"] + proxy["calls"]
    assert cost[0] == pytest.approx(expected / 1e6)


def test_labels(server: SimulatedServer) -> None:
    """A classification keeps its accuracy over the wire."""
    rows, own, _ = figures(
        server, "SELECT t, ai_classify(t, ['cat', 'dog'], accuracy => 0.9, proxy => 'small') AS kind FROM t"
    )
    assert sum(kind == KINDS[text] for text, kind in rows) >= 0.9 * ROWS
    assert own["promise"]["accuracy"] >= 0.9


def test_cancel_while_the_proxy_is_asked(server: SimulatedServer) -> None:
    """A cancelled query stops in the midst of the proxy's answers."""
    import adbc_driver_flightsql.dbapi as flight_sql

    sql = f"SELECT count(*) FROM t WHERE {FILTER.replace('small', 'slow')}"
    errors: list[Exception] = []
    with flight_sql.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:

        def run() -> None:
            try:
                cursor.execute(sql)
                cursor.fetchall()
            except Exception as error:  # noqa: BLE001 - the driver has errors of several kinds
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        await_true(lambda: bool(server.asked("slow")))
        cursor.adbc_cancel()
        thread.join(_SECONDS)
        assert not thread.is_alive()
    assert errors
    assert len(server.asked("slow")) < ROWS
    assert not [text for text in map(str, errors) if "Traceback" in text]
