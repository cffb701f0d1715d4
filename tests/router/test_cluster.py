"""The engine kind `cluster`: how its replicas are told, and what is wrong with them."""

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.engines import check_engine, create_engine
from flightllm.errors import CancelledError, ConfigError, EngineUnavailableError
from flightllm.router.cluster import replica_configs
from flightllm.router.engine import RoutedEngine
from flightllm.session.database import Database
from tests.databases import ask
from tests.endpoint_process import EndpointProcess
from tests.servers import await_true

FAKE: Mapping[str, object] = {"kind": "fake", "latency_ms": 1.0}


def cluster(*replicas: Mapping[str, object], **options: object) -> EngineConfig:
    """Return the configuration of a cluster."""
    return EngineConfig("cluster", "demo", 8, {"replicas": list(replicas), **options})


def test_common_and_own_keys() -> None:
    """A replica has the keys that all have in common, and its own before them."""
    config = cluster({}, {"cache_blocks": 7}, replica={**FAKE, "cache_blocks": 50}, policy="least_loaded")
    engine = create_engine(config)
    assert isinstance(engine, RoutedEngine)
    assert engine.name == "cluster of fake (demo), 2 replicas, least_loaded"
    assert [one.cache_blocks for one in engine.status()] == [50, 7]
    assert [one.name for one in engine.status()] == ["fake 0", "fake 1"]
    engine.close()


SHARED: dict[str, Any] = {"price_input": 1.0, "prompt_format": "plain", "reasoning": "low", "repair": False}


def test_shared_keys() -> None:
    """Replicas have the keys of the cluster's section that none of them can have of its own, but for the prices."""
    config = replace(cluster({**FAKE, "model": "other", "max_in_flight": 3}, FAKE), **SHARED)
    _, found = replica_configs(config)
    assert [(one.kind, one.model, one.max_in_flight) for one in found] == [("fake", "other", 3), ("fake", "demo", 8)]
    shared = {(one.price_input, one.prompt_format, one.reasoning, one.repair) for one in found}
    assert shared == {(None, "plain", "low", False)}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (cluster(), r"replicas: write a section \[\[engine.replicas\]\] for each engine"),
        (cluster({}), r'\[\[engine.replicas\]\] kind: write the kind of engine, such as kind = "openai"'),
        (cluster(FAKE, policy="fair"), "policy: expected one of round_robin, .*, e2_batch; got 'fair'"),
        (cluster({"kind": "cluster"}), "'cluster' is not a single engine"),
        (
            cluster(FAKE, {"kind": "fake", "speed": 3}),
            r"\[\[engine.replicas\]\] 2: speed: unknown option of the engine 'fake'",
        ),
        (cluster({"kind": "fake", "max_in_flight": "many"}), "max_in_flight: expected a whole number, got 'many'"),
        (cluster({"kind": 3}), "kind: expected a string, got 3"),
        (cluster({"kind": "fast"}), "kind: expected one of local, "),
        (EngineConfig("cluster", options={"replicas": ["http://x"]}), r"expected sections \[\[engine.replicas\]\]"),
        (
            EngineConfig("cluster", options={"replicas": "http://x"}),
            r"expected sections \[\[engine.replicas\]\], got str",
        ),
        (cluster(FAKE, replica="x"), r"\[engine\] replica: expected a section \[engine.replica\], or a text"),
        *(
            (cluster({**FAKE, key: value}), rf"{key}: one value holds for all replicas; write it in \[engine\]")
            for key, value in SHARED.items()
        ),
        (
            cluster({"base_url": "http://a:b@h/v1"}, {"base_url": "http://a:b@h/v1/"}, replica={"kind": "openai"}),
            "base_url: the sections 1 and 2 have the same address, http://h/v1; write each endpoint once",
        ),
        (cluster(FAKE, window=3), "window: unknown option of the engine 'cluster'; valid options: policy, replica, "),
    ],
)
def test_wrong_options(config: EngineConfig, message: str) -> None:
    """What is wrong with the options is told before anything is opened."""
    with pytest.raises(ConfigError, match=message):
        check_engine(config)


def test_password_in_an_address() -> None:
    """What a replica and its engine are called shows no password."""
    pytest.importorskip("openai", reason="the extra 'openai' is not installed")
    config = cluster({"kind": "openai", "base_url": "http://me:secret@127.0.0.1:1/v1"})
    with closing(create_engine(config)) as engine:
        assert isinstance(engine, RoutedEngine)
        [replica] = engine.status()
        assert replica.name == "http://127.0.0.1:1/v1"
        with pytest.raises(EngineUnavailableError) as raised:
            engine.replica(0).engine.probe()
        assert "http://127.0.0.1:1/v1" in str(raised.value)
        assert "secret" not in str(raised.value)


def test_shipped_file() -> None:
    """The shipped file's options are right, but for the tokenizer, which it takes from a model hub."""
    config = Config.load(Path("cluster")).engine
    replica = {key: value for key, value in dict(config.options["replica"]).items() if key != "tokenizer"}  # type: ignore[call-overload]
    replicas = [
        {key: value for key, value in one.items() if not key.startswith("kv_")}
        for one in config.options["replicas"]  # type: ignore[attr-defined]
    ]
    check_engine(EngineConfig("cluster", config.model, 8, {"replica": replica, "replicas": replicas}))


def _kill_at(database: Database, answered: int, endpoint: EndpointProcess) -> None:
    """Kill an endpoint once so many prompts are answered."""
    with closing(database.session()) as session:
        sql = "SELECT sum(answered) AS answered FROM system.replicas"
        await_true(lambda: ask(session, sql).rows[0]["answered"] >= answered)
    endpoint.stop()


@pytest.mark.slow
def test_endpoint_killed(tmp_path: Path) -> None:
    """A query goes on where one of two endpoints is killed in its middle: all rows are right."""
    sql = "SELECT value AS n, ai_gen('Say it.', value) AS a FROM generate_series(1, 300)"
    with EndpointProcess() as one, EndpointProcess() as other:
        engine = cluster(
            {"base_url": one.url},
            {"base_url": other.url},
            replica={"kind": "openai", "api": "chat"},
            policy="least_loaded",
        )
        database = Database.open(Config(engine=engine, data_folder=tmp_path))
        result = database.session().execute(sql)
        killer = threading.Thread(target=_kill_at, args=(database, 20, one))
        killer.start()
        rows = [row for batch in result.batches for row in batch.to_pylist()]
        killer.join()
        assert sorted(row["n"] for row in rows) == list(range(1, 301))
        assert all(str(row["n"]) in row["a"] for row in rows)
        status = ask(database.session(), "SELECT name, state FROM system.replicas ORDER BY number").rows
        assert [(row["name"], row["state"]) for row in status] == [(one.url, "down"), (other.url, "up")]
        database.close()


@pytest.mark.slow
def test_what_is_not_sent_is_no_call(tmp_path: Path) -> None:
    """Of a query that is cancelled, prompts that waited for a replica count neither as calls nor in a budget."""
    engine = cluster({"kind": "fake", "latency_ms": 20.0}, {"kind": "fake", "latency_ms": 20.0})
    with closing(Database.open(Config(engine=engine, data_folder=tmp_path))) as database:
        session = database.session()
        sql = "SELECT value AS n, ai_gen('Say it.', value) AS a FROM generate_series(1, 3000)"
        result = session.execute(sql, settings={"max_calls": "5000"})
        next(iter(result.batches))
        result.query.cancelled.set()
        with pytest.raises(CancelledError):
            list(result.batches)
        row = result.query.row()
        assert row["answered"] <= row["calls"] <= row["answered"] + 16
