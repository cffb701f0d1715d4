"""An engine in a Ray actor answers as it does without one, and its death is known at once."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flightllm.config import EngineConfig
from flightllm.errors import CancelledError, ConfigError, EngineUnavailableError
from flightllm.llm import Engine, create_engine
from flightllm.llm.predict import tokenizing
from flightllm.model.engine import Completion, PrefixCache, Request
from flightllm.router.ray.replica import Placement, RayReplica
from flightllm.router.ray.tokens import tokens_of
from tests.rays import kill, local_ray, runs, until

pytestmark = pytest.mark.ray

WINDOW = 8
PLACEMENT = Placement(num_cpus=0.1, start_seconds=120.0)
MakeRequests = Callable[..., list[Request]]
Make = Callable[..., RayReplica]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    """Have a cluster."""
    with local_ray():
        yield


@pytest.fixture
def replica() -> Iterator[Make]:
    """Return how to make a replica with a fake engine, which is closed in the end."""
    made: list[RayReplica] = []

    def make(**options: Any) -> RayReplica:
        config = EngineConfig("fake", "demo", WINDOW, options)
        made.append(RayReplica(config, PLACEMENT, tokens_of(config)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def answers(engine: Engine, requests: list[Request]) -> dict[int, str | None]:
    """Ask all of the requests, and check that each is answered once."""
    found = list(engine.generate(iter(requests), lambda: False))
    assert sorted(completion.id for completion in found) == sorted(request.id for request in requests)
    return {completion.id: completion.text for completion in found}


def test_as_without_ray(replica: Make, make_requests: MakeRequests) -> None:
    """Answers, names, cache and tokens are those of the engine inside."""
    inside = create_engine(EngineConfig("fake", "demo", WINDOW, {"cache_blocks": 64}))
    engine = replica(cache_blocks=64)
    requests = make_requests(500)
    assert answers(engine, requests) == answers(inside, requests)
    assert (engine.name, engine.revision) == ("fake (demo) on Ray", inside.revision)
    assert engine.prefix_cache == PrefixCache(16, 64)
    assert engine.kv_events is None
    assert engine.count_tokens("a short sentence") == inside.count_tokens("a short sentence")
    ours, theirs = tokenizing(engine), tokenizing(inside)
    assert ours is not None
    assert theirs is not None
    assert ours.token_ids(["a short sentence"]) == theirs.token_ids(["a short sentence"])
    assert ours.context_tokens == theirs.context_tokens
    until(lambda: engine.in_flight == 0)


def test_tokens_that_only_the_nodes_know() -> None:
    """Where this machine has no tokenizer, prompts are routed by their text."""
    config = EngineConfig("fake", "demo", WINDOW, {})
    engine = RayReplica(config, PLACEMENT, None)
    assert tokenizing(engine) is None
    assert engine.count_tokens("four characters?") == 4
    engine.close()


def test_window_and_pauses(replica: Make, make_requests: MakeRequests) -> None:
    """No more than the window is pulled and not answered, in the caller's thread, also where requests pause."""
    engine = replica(latency_ms=5.0)
    pulled = done = 0

    def source() -> Iterator[Request | None]:
        nonlocal pulled
        yield None
        for request in make_requests(60):
            if request.id % 7 == 0:
                yield None
            pulled += 1
            assert pulled - done <= WINDOW
            yield request

    for _ in engine.generate(source(), lambda: False):
        done += 1
    assert done == 60


def test_cancelled(replica: Make, make_requests: MakeRequests) -> None:
    """A cancelled call ends, in the actor too, so that others have the engine's whole window."""
    engine = replica(latency_ms=300.0)
    stop = threading.Event()
    stream = engine.generate(iter(make_requests(1_000)), stop.is_set)
    next(stream)
    stop.set()
    with pytest.raises(CancelledError):
        list(stream)
    until(lambda: engine.in_flight == 0)
    assert len(answers(engine, make_requests(20))) == 20


def test_ended_before_it_was_sent(replica: Make, make_requests: MakeRequests) -> None:
    """What a call asked in the turn of the loop in which it ended is never sent; what others asked is."""
    engine = replica()
    ended, other = make_requests(2)

    async def ask() -> list[Completion]:
        tasks = [asyncio.create_task(engine._answer(group, [one])) for group, one in ((100, ended), (101, other))]
        await asyncio.sleep(0)
        tasks[0].cancel()
        engine._end(100)
        assert [group for group, _ in engine._outbox] == [101]
        return await tasks[1]

    [completion] = engine._loop.run(ask())
    assert completion.id == other.id


def test_several_at_once(replica: Make, make_requests: MakeRequests) -> None:
    """Callers at the same time get their own answers, also where their requests have the same numbers."""
    engine = replica(latency_ms=2.0)
    found: list[dict[int, str | None]] = []
    threads = [threading.Thread(target=lambda: found.append(answers(engine, make_requests(50)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3
    assert found[0] == found[1] == found[2]


def test_one_bad_request_fails_alone(replica: Make, make_requests: MakeRequests) -> None:
    """What the engine inside says of one prompt comes out as that prompt's error."""
    engine = replica(fail_containing="number 3\n")
    found = {one.id: one for one in engine.generate(iter(make_requests(6)), lambda: False)}
    assert [number for number, one in found.items() if one.error] == [3]


def test_killed(replica: Make, make_requests: MakeRequests) -> None:
    """Who waits for an actor that is killed hears so, and who asks it later."""
    engine = replica(latency_ms=50.0)
    stream = engine.generate(iter(make_requests(1_000)), lambda: False)
    first: Completion = next(stream)
    assert first.text
    kill(engine.pid)
    with pytest.raises(EngineUnavailableError, match=r"fake \(demo\) on Ray died"):
        list(stream)
    assert not engine.alive
    with pytest.raises(EngineUnavailableError, match="died"):
        answers(engine, make_requests(1))


def test_killed_while_idle(replica: Make) -> None:
    """A death is known though nobody asks."""
    engine = replica()
    kill(engine.pid)
    until(lambda: not engine.alive)


def test_dead_inside(replica: Make, make_requests: MakeRequests) -> None:
    """An engine that dies in an actor which lives is as dead."""
    engine = replica(die_after=20, latency_ms=1.0)
    with pytest.raises(EngineUnavailableError, match="died after 20 completions"):
        answers(engine, make_requests(60))


def test_closed(replica: Make, make_requests: MakeRequests) -> None:
    """Closing ends the actor's process, once and again, and refuses further work."""
    engine = replica()
    pid = engine.pid
    engine.close()
    engine.close()
    until(lambda: not runs(pid))
    with pytest.raises(EngineUnavailableError):
        answers(engine, make_requests(1))


def test_errors_inside_come_out_as_they_are() -> None:
    """A wrong option of the engine inside is a mistake in the configuration here too."""
    with pytest.raises(ConfigError, match="unknown option of the engine 'fake'"):
        RayReplica(EngineConfig("fake", "demo", WINDOW, {"latency": 1}), PLACEMENT)


def test_no_room() -> None:
    """A cluster without a place for the replica is waited for as long as it is told."""
    with pytest.raises(EngineUnavailableError, match=r"start_seconds = 1: run `ray status` to see"):
        RayReplica(EngineConfig("fake", "demo", WINDOW, {}), Placement(num_cpus=1_000.0, start_seconds=1.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_cpus": -1.0}, "num_cpus: expected a number from 0 on, got -1"),
        ({"num_gpus": float("inf")}, "num_gpus: expected a number from 0 on"),
        ({"resources": {"chip": "2"}}, "resources: expected a number from 0 on for 'chip', got '2'"),
        ({"start_seconds": 0.0}, "start_seconds: expected a number above 0"),
    ],
)
def test_mistakes(given: dict[str, Any], message: str) -> None:
    """What no node could have is refused by name."""
    with pytest.raises(ValueError, match=message):
        Placement(**given)
