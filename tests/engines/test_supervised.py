"""An engine that dies is opened again; queries go on where they were, or fail, as configured."""

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from flightllm.config import EngineConfig, RecoveryConfig
from flightllm.engines import create_engine
from flightllm.engines.fake.engine import FakeEngine
from flightllm.engines.supervised import SupervisedEngine
from flightllm.errors import CancelledError, EngineUnavailableError
from flightllm.llm.engine import Completion, Engine, Parameters, PrefixCache, Request
from tests.databases import ask, small_database
from tests.endpoint_process import EndpointProcess
from tests.packages import NEEDS_VLLM, needs
from tests.servers import await_true

MakeRequests = Callable[..., list[Request]]
NEEDS_OPENAI = needs("openai", extra="openai")
NUMBERS = "CREATE TABLE numbers AS SELECT value AS n FROM generate_series(1, 400)"


def fake(**options: object) -> Callable[[], Engine]:
    """Return what makes a fake engine."""
    return partial(create_engine, EngineConfig("fake", "demo", 8, options))


def supervised(create: Callable[[], Engine], *, in_background: bool = False, **recovery: object) -> SupervisedEngine:
    """Return an engine that is opened again when it dies."""
    return SupervisedEngine("the engine", create, RecoveryConfig(**recovery), in_background=in_background)  # type: ignore[arg-type]


def answers(engine: Engine, requests: list[Request]) -> list[Completion]:
    """Ask all of the requests."""
    return list(engine.generate(iter(requests), lambda: False))


def test_queries_go_on_after_a_death(make_requests: MakeRequests) -> None:
    """An engine that dies again and again answers every request once, as one that lives does."""
    created: list[Engine] = []

    def create() -> Engine:
        created.append(fake(die_after=20, latency_ms=1.0)())
        return created[-1]

    engine = supervised(create)
    requests = make_requests(70)
    found = answers(engine, requests)
    assert len(created) == 4
    assert {c.id: c.text for c in found} == {c.id: c.text for c in answers(fake()(), requests)}
    assert len(found) == 70
    engine.close()


def test_queries_fail_where_configured(make_requests: MakeRequests) -> None:
    """With `fail`, the query that meets the death fails, those while it is down too, and later ones work."""
    ready, made = threading.Event(), threading.Event()

    def create() -> Engine:
        if made.is_set():
            ready.wait(60)
        made.set()
        return fake(die_after=20)()

    engine = supervised(create, on_engine_down="fail")
    with pytest.raises(EngineUnavailableError, match="died after 20"):
        answers(engine, make_requests(70))
    with pytest.raises(EngineUnavailableError, match=r"the engine the engine is down: .*died after 20"):
        answers(engine, make_requests(1))
    ready.set()
    await_true(lambda: engine.alive)
    assert len(answers(engine, make_requests(5))) == 5
    engine.close()


def test_an_engine_that_does_not_come_back(make_requests: MakeRequests) -> None:
    """Waiting queries fail after a while, saying why the engine does not start and which setting that is."""
    made: list[Engine] = []

    def create() -> Engine:
        if made:
            raise EngineUnavailableError("no GPU left")
        made.append(fake(die_after=5)())
        return made[0]

    engine = supervised(create, engine_wait_seconds=1)
    with pytest.raises(EngineUnavailableError, match=r"engine_wait_seconds = 1: no GPU left"):
        answers(engine, make_requests(20))
    with pytest.raises(CancelledError):
        list(engine.generate(iter(make_requests(1)), lambda: True))
    engine.close()


@NEEDS_OPENAI
def test_an_engine_that_never_answered_fails_at_once(make_requests: MakeRequests) -> None:
    """Who configured an address where nothing is gets the error, without waiting for it to come up."""
    options = {"base_url": "http://127.0.0.1:1/v1", "api_key_env": "", "max_retries": 0}
    engine = supervised(partial(create_engine, EngineConfig("openai", "demo", 8, options)), engine_wait_seconds=600)
    with pytest.raises(EngineUnavailableError, match="cannot be reached"):
        answers(engine, make_requests(1))
    engine.close()


def test_closed_while_it_is_down(make_requests: MakeRequests, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that finds its way back by itself is kept when it is lost, and released when all is closed."""
    closed, kept = threading.Event(), fake(die_after=5)()
    monkeypatch.setattr(type(kept), "reconnects", True)
    monkeypatch.setattr(kept, "close", closed.set)
    engine = supervised(lambda: kept, on_engine_down="fail")
    with pytest.raises(EngineUnavailableError):
        answers(engine, make_requests(20))
    assert not closed.is_set()
    engine.close()
    assert closed.wait(60)


def test_opened_in_background(make_requests: MakeRequests) -> None:
    """An engine that is still being opened holds nobody up but those who ask it."""
    ready = threading.Event()

    def create() -> Engine:
        assert ready.wait(60)
        return fake(cache_blocks=7)()

    engine = supervised(create, in_background=True)
    assert (engine.name, engine.alive) == ("the engine", False)
    threading.Timer(0.3, ready.set).start()
    assert len(answers(engine, make_requests(3))) == 3
    assert (engine.name, engine.alive) == ("fake (demo)", True)
    assert engine.prefix_cache == PrefixCache(16, 7)
    engine.close()
    with pytest.raises(EngineUnavailableError, match="closed"):
        answers(engine, make_requests(1))


def test_a_failure_of_what_asks_is_not_the_engines(make_requests: MakeRequests) -> None:
    """An error of the same class from where the requests come from is passed on, and the engine stays."""
    engine = supervised(fake())
    answers(engine, make_requests(1))

    def broken() -> Iterator[Request]:
        yield from make_requests(2)
        raise EngineUnavailableError("another engine is gone")

    with pytest.raises(EngineUnavailableError, match="another engine"):
        list(engine.generate(broken(), lambda: False))
    assert cast("FakeEngine", engine.inner).sent == 3
    engine.close()


def test_in_a_query(tmp_path: Path) -> None:
    """A query over an engine that dies returns every row once, and asks nothing again that it had an answer to."""
    database = small_database(tmp_path, {"die_after": 150, "log_path": str(tmp_path / "log")}, window=8)
    session = database.session()
    session.update(NUMBERS)
    ran = ask(session, "SELECT n, ai_gen('Tell of {n}', n) AS told FROM numbers")
    assert sorted(row["n"] for row in ran.rows) == list(range(1, 401))
    assert all(row["told"] for row in ran.rows)
    assert ran.calls == 400
    assert len((tmp_path / "log").read_text().splitlines()) <= 400 + 2 * 8
    database.close()


@pytest.mark.slow
@NEEDS_OPENAI
def test_an_endpoint_that_comes_back(make_requests: MakeRequests) -> None:
    """An endpoint killed in mid-query and started again: all answers come, each once."""
    with EndpointProcess() as endpoint:
        options = {"base_url": endpoint.url, "api_key_env": "", "max_retries": 0}
        engine = supervised(partial(create_engine, EngineConfig("openai", "demo", 4, options)), engine_wait_seconds=60)
        stream = engine.generate(iter(make_requests(60)), lambda: False)
        found = [next(stream) for _ in range(10)]
        endpoint.stop()
        threading.Timer(1.0, endpoint.start).start()
        found += list(stream)
        assert sorted(completion.id for completion in found) == list(range(60))
        assert all(completion.text for completion in found)
        engine.close()


@pytest.mark.slow
@pytest.mark.vllm
@NEEDS_VLLM
def test_vllm_killed(model_path: Path, make_requests: MakeRequests) -> None:
    """VLLM's process killed in mid-query: another is started, and every request is answered once."""
    before = set(multiprocessing.active_children())
    options = {"kv_cache_memory_bytes": 16 << 20, "max_model_len": 2048}
    engine = supervised(partial(create_engine, EngineConfig("vllm", str(model_path), 4, options)))
    [process] = set(multiprocessing.active_children()) - before
    stream = engine.generate(iter(make_requests(300, Parameters(max_tokens=2))), lambda: False)
    found = [next(stream) for _ in range(20)]
    process.kill()
    found += list(stream)
    assert sorted(completion.id for completion in found) == list(range(300))
    assert all(completion.error is None for completion in found)
    engine.close()
