"""Replicas on Ray as one engine: in queries, under load, and when actors or the server are killed."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.engines import Engine, check_engine, create_engine
from flightllm.engines.supervised import SupervisedEngine
from flightllm.errors import ConfigError, EngineUnavailableError, MissingExtraError
from flightllm.llm.engine import Parameters, Request
from flightllm.router.ray.connection import RayConnection
from flightllm.router.ray.engine import RayEngine
from flightllm.session.database import Database
from tests.databases import ask, open_database
from tests.packages import NEEDS_VLLM, needs
from tests.rays import children, kill, local_ray, need_ray, runs, until

NUMBERS = "CREATE TABLE numbers AS SELECT value AS n FROM generate_series(1, 400)"
TOLD = "SELECT n, ai_gen('Tell of {n}', n) AS told FROM numbers"
MakeRequests = Callable[..., list[Request]]
VLLM: dict[str, object] = {"kind": "vllm", "kv_cache_memory_bytes": 16 << 20, "max_model_len": 2_048, "kv_events": True}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayConnection]:
    """Return a connection to a cluster that the engines here share."""
    with local_ray() as connection:
        yield connection


def config(replica: Mapping[str, object] | None = None, model: str = "demo", **options: Any) -> EngineConfig:
    """Return the configuration of small replicas, fake ones if not told otherwise, with eight prompts in flight."""
    inside = {"kind": "fake"} if replica is None else replica
    few: dict[str, Any] = {"policy": "least_loaded", "num_cpus": 0.1, "start_seconds": 300.0, "replica": inside}
    return EngineConfig("ray", model, 8, few | options)


def open_ray(given: EngineConfig) -> RayEngine:
    """Open the engine."""
    engine = create_engine(given)
    assert isinstance(engine, RayEngine)
    return engine


def pids(engine: Any) -> dict[int, int]:
    """Return the processes of the actors that are up, by replica."""
    return {one.number: engine.replica(one.number).engine.inner.pid for one in engine.status() if one.state == "up"}


def answered_once(engine: Engine, requests: list[Request]) -> list[str | None]:
    """Ask all of the requests, check that each is answered once, and return the answers in order."""
    found = {completion.id: completion.text for completion in engine.generate(iter(requests), lambda: False)}
    assert sorted(found) == sorted(request.id for request in requests)
    return [found[request.id] for request in requests]


@pytest.mark.slow
@pytest.mark.ray
def test_killed_in_a_query(cluster: RayConnection, tmp_path: Path) -> None:
    """Of a query with one of two actors killed in its midst, every row is right and there once; another actor comes."""
    del cluster
    log = tmp_path / "log"
    given = config({"kind": "fake", "latency_ms": 30.0, "log_path": str(log)}, min_replicas=2)
    database = Database.open(Config(engine=given, data_folder=tmp_path / "data"))
    engine: Any = cast("SupervisedEngine", database._services.engines.own.engine).inner
    session = database.session()
    session.update(NUMBERS)
    before = pids(engine)
    result = session.execute(TOLD, None, {})
    rows: list[dict[str, Any]] = []
    for batch in result.batches:
        rows += batch.to_pylist()
        if len(rows) == batch.num_rows:  # the first one
            kill(before[0])
    assert sorted(row["n"] for row in rows) == list(range(1, 401))
    plain = open_database(tmp_path / "plain").session()
    plain.update(NUMBERS)
    assert sorted(map(str, rows)) == sorted(map(str, ask(plain, TOLD).rows))
    assert result.query.row()["calls"] == 400
    sent = len(log.read_text(encoding="utf-8").splitlines())
    assert 400 <= sent <= 400 + 8, "only what the dead one had in flight is asked again"
    until(lambda: len(pids(engine)) == 2)
    assert pids(engine)[0] != before[0]
    assert len(ask(session, "SELECT ai_gen('Again {n}', n) AS told FROM numbers").rows) == 400
    database.close()


@pytest.mark.ray
@pytest.mark.slow
def test_out_and_in(cluster: RayConnection, make_requests: MakeRequests) -> None:
    """Under a backlog actors are added, and all take part; when they have had nothing to do they go."""
    del cluster
    scaling: dict[str, Any] = {"backlog_seconds": 0.5, "upscale_delay_s": 0.5, "downscale_delay_s": 2.0}
    engine = open_ray(config({"kind": "fake", "latency_ms": 40.0}, min_replicas=1, max_replicas=3, **scaling))
    assert engine.replicas == 1
    stream = engine.generate(iter(make_requests(100_000)), lambda: False)
    done = 0
    for _ in stream:
        done += 1
        if done % 100 == 0 and sum(one.answered > 0 for one in engine.status()) == 3:
            break
    assert done < 100_000
    stream.close()  # type: ignore[attr-defined]
    processes = pids(engine)
    until(lambda: engine.replicas == 1)
    [left] = pids(engine).values()
    until(lambda: sum(map(runs, processes.values())) == 1)
    assert left in processes.values()
    assert len(answered_once(engine, make_requests(50))) == 50
    engine.close()
    until(lambda: not runs(left))


@pytest.mark.ray
@pytest.mark.slow
def test_dead_while_idle(cluster: RayConnection) -> None:
    """An actor that dies while nobody asks is replaced all the same."""
    del cluster
    engine = open_ray(config(min_replicas=2))
    before = pids(engine)
    kill(before[1])
    until(lambda: pids(engine).get(1, before[1]) != before[1])
    engine.close()


@pytest.mark.ray
@pytest.mark.slow
def test_all_dead(cluster: RayConnection, make_requests: MakeRequests) -> None:
    """With all actors killed a query fails, and later ones work again."""
    del cluster
    engine = open_ray(config({"kind": "fake", "latency_ms": 20.0}, min_replicas=2))
    stream = engine.generate(iter(make_requests(2_000)), lambda: False)
    next(stream)
    for pid in pids(engine).values():
        kill(pid)
    with pytest.raises(EngineUnavailableError, match="no replica"):
        list(stream)
    until(lambda: len(pids(engine)) == 2)
    assert len(answered_once(engine, make_requests(20))) == 20
    engine.close()


@pytest.mark.ray
@pytest.mark.slow
def test_one_cluster_per_process(cluster: RayConnection) -> None:
    """A second address is refused: Ray has one connection per process."""
    del cluster
    with pytest.raises(ConfigError, match=r"uses the Ray cluster 'of its own' already.*got '127\.0\.0\.1:1'"):
        create_engine(config(address="127.0.0.1:1"))


@pytest.mark.ray
@pytest.mark.slow
def test_the_cluster_killed(cluster: RayConnection, make_requests: MakeRequests) -> None:
    """Where Ray itself dies on the server's machine another local cluster is started, and new actors there."""
    del cluster
    engine = open_ray(config())
    before = pids(engine)
    programs = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] for pid in children(os.getpid())}
    [raylet] = [pid for pid, program in programs.items() if program.endswith(b"/raylet")]
    kill(raylet)
    until(lambda: pids(engine).get(0, before[0]) != before[0])
    assert len(answered_once(engine, make_requests(20))) == 20
    engine.close()


_DRIVER = """
import os, sys, time
from flightllm.config import EngineConfig
from flightllm.engines import create_engine

if __name__ == "__main__":
    options = {"min_replicas": 2, "num_cpus": 0.1, "policy": "least_loaded", "replica": {"kind": "fake"}}
    engine = create_engine(EngineConfig("ray", "demo", 8, options))
    print("actors", *(engine.replica(n).engine.inner.pid for n in (0, 1)), flush=True)
    time.sleep(600)
"""


@pytest.mark.ray
@pytest.mark.slow
def test_the_server_killed() -> None:
    """Actors and the cluster that a server started end with it, also when it is killed."""
    need_ray()
    with subprocess.Popen([sys.executable, "-c", _DRIVER], stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            said = next(line for line in driver.stdout if line.startswith("actors"))  # the log comes before
            actors = [int(pid) for pid in said.split()[1:]]
            started = children(driver.pid)
        finally:
            driver.kill()
    assert set(actors) <= set(started)
    until(lambda: not any(map(runs, actors)))
    agents = [pid for pid in started if runs(pid)]
    for (
        pid
    ) in agents:  # Ray's own, which look for their cluster but now and then; a supervisor ends them by their group
        kill(pid)


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package the extra is named, before anything starts."""
    monkeypatch.setitem(sys.modules, "ray", None)
    for act in (check_engine, create_engine):
        with pytest.raises(MissingExtraError, match=r"flightllm\[ray\]"):
            act(config())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 2}, r"\[engine\] replicas: unknown option of the engine 'ray'; valid options: address, backlog"),
        ({"replica": {}}, r"\[engine\] replica: write a section \[engine.replica\]"),
        ({"replica": {"latency_ms": 1}}, r"\[engine.replica\] kind: write the kind of engine"),
        (
            {"replica": {"kind": "fake", "price_output": 1.0}},
            r"\[engine.replica\] price_output: .* write it in \[engine\]",
        ),
        ({"replica": {"kind": "ray"}}, r"\[engine.replica\] kind: 'ray' is not a single engine"),
        (
            {"replica": {"kind": "fake", "latency": 1}},
            r"\[engine.replica\] latency: unknown option of the engine",
        ),
        ({"replica": {"kind": "fake", "max_in_flight": "8"}}, r"\[engine.replica\] max_in_flight: expected a whole"),
        ({"policy": "best"}, r"\[engine\] policy: expected one of round_robin"),
        ({"min_replicas": 0}, r"\[engine\] min_replicas: expected at least 1, got 0"),
        ({"min_replicas": 3, "max_replicas": 2}, r"\[engine\] max_replicas: expected at least min_replicas = 3"),
        ({"num_gpus": -1.0}, r"\[engine\] num_gpus: expected a number from 0 on, got -1"),
        ({"address": "ray://h:10001"}, r"\[engine\] address: run the server on a node.*'auto' or HOST:6379"),
        ({"address": 3}, r"\[engine\] address: expected str, got int 3"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    """Wrong options, also those of the engines inside, are refused by name before anything starts."""
    with pytest.raises(ConfigError, match=message):
        check_engine(config(**options))


@pytest.mark.ray
@pytest.mark.slow
def test_no_cluster() -> None:
    """An address where no cluster is says so."""
    need_ray()
    code = (
        "from flightllm.config import EngineConfig\n"
        "from flightllm.engines import create_engine\n"
        "create_engine(EngineConfig('ray', 'demo', 8, {'address': '127.0.0.1:1', 'replica': {'kind': 'fake'}}))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=250)
    assert "EngineUnavailableError: no Ray cluster at 127.0.0.1:1" in ran.stderr


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.vllm
@NEEDS_VLLM
@needs("zmq", extra="cluster")
def test_vllm_killed(cluster: RayConnection, model_path: Path, make_requests: MakeRequests) -> None:
    """With two vLLMs in actors, one killed in mid-query: each request is answered once, and nothing of it is left."""
    del cluster
    engine = open_ray(config(VLLM, str(model_path), min_replicas=2, start_seconds=600.0))
    until(lambda: all(one.kv_events for one in engine.status()))
    actor = pids(engine)[0]
    started = children(actor)
    requests = make_requests(300, Parameters(max_tokens=2))
    stream = engine.generate(iter(requests), lambda: False)
    found = [next(stream) for _ in range(20)]
    kill(actor)
    found += list(stream)
    assert sorted(completion.id for completion in found) == list(range(300))
    assert all(completion.error is None and completion.text is not None for completion in found)
    until(lambda: not any(map(runs, started)))
    until(lambda: engine.status()[1].held_blocks > 0)  # as its own events say
    until(lambda: len(pids(engine)) == 2)
    engine.close()
