"""What runs in a Ray actor, here without one: calls that come bit by bit, and errors on their way."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.errors import ConfigError, EngineError, MissingExtraError
from flightllm.llm.engine import Completion, KvEventsAddress, Request
from flightllm.router.ray.actor import ActorFailure, Answer, Group, published, reached
from tests.servers import await_true

MakeRequests = Callable[..., list[Request]]
LONG_MS = 3_600_000.0


def engine(**options: float) -> FakeEngine:
    """Return a fake engine that keeps eight prompts in flight."""
    return FakeEngine("demo", 8, FakeOptions(**options))  # type: ignore[arg-type]


def test_requests_come_bit_by_bit(make_requests: MakeRequests) -> None:
    """One call of the engine answers all that a group asks, whenever it comes."""
    answers: SimpleQueue[Answer] = SimpleQueue()
    fake = engine(latency_ms=5.0)
    group = Group(7, fake, answers.put)
    found = []
    for start in (0, 3, 40):
        group.ask(make_requests(start + 3, start=start))
        found += [answers.get(timeout=30) for _ in range(start + 3)]
    assert {number for number, _ in found} == {7}
    assert len({result.id for _, result in found if isinstance(result, Completion)}) == 3 + 6 + 43
    group.end()
    fake.close()


def test_the_end_aborts_what_is_in_flight(make_requests: MakeRequests) -> None:
    """Ending a group gives its place in the engine to others."""
    fake = engine(latency_ms=LONG_MS)
    group = Group(1, fake, lambda _: None)
    group.ask(make_requests(20))
    await_true(lambda: fake.in_flight == 8)
    group.end()
    await_true(lambda: fake.in_flight == 0)
    fake.close()


def test_a_death_is_passed_on(make_requests: MakeRequests) -> None:
    """The error of the engine inside comes out as the group's."""
    answers: SimpleQueue[Answer] = SimpleQueue()
    group = Group(1, engine(die_after=3), answers.put)
    group.ask(make_requests(10))
    found = [answers.get(timeout=30)[1] for _ in range(4)]
    assert [isinstance(one, Completion) for one in found] == [True, True, True, False]
    assert found[3] == ActorFailure("EngineUnavailableError", "the engine fake (demo) died after 3 completions")


def test_a_defect_of_the_engine_is_passed_on(make_requests: MakeRequests) -> None:
    """Whatever else goes wrong in there is told too, so that nobody waits."""

    class Broken(FakeEngine):
        def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
            del requests, cancelled
            raise ZeroDivisionError("by zero")
            yield

    answers: SimpleQueue[Answer] = SimpleQueue()
    Group(1, Broken("demo", 8, FakeOptions()), answers.put).ask(make_requests(1))
    assert answers.get(timeout=30)[1] == ActorFailure("EngineError", "the engine failed: ZeroDivisionError: by zero")


@pytest.mark.parametrize("error", [ConfigError("no such key"), MissingExtraError("the engine", "local")])
def test_errors_keep_their_class_and_words(error: Exception) -> None:
    """An error is the same on the other side, whatever its constructor takes."""
    again = ActorFailure.of(error).error()
    assert (type(again), str(again)) == (type(error), str(error))
    assert type(ActorFailure.of(ValueError("?")).error()) is EngineError


def test_events_for_other_nodes() -> None:
    """Where another host is to hear events, they are told at free ports, under the name of the node."""
    assert published({"kv_events": False, "block_size": 32}) == {"kv_events": False, "block_size": 32}
    options = published({"kv_events": True})
    assert all(str(options[key]).startswith("tcp://*:") for key in ("kv_events", "kv_replay"))
    assert options["kv_events"] != options["kv_replay"]
    here = KvEventsAddress("tcp://127.0.0.1:5557", "tcp://127.0.0.1:5558", "topic")
    assert reached(here, None) == here
    assert reached(here, "10.0.0.7") == KvEventsAddress("tcp://10.0.0.7:5557", "tcp://10.0.0.7:5558", "topic")
    assert reached(KvEventsAddress("ipc:///tmp/events"), "10.0.0.7") is None
    assert reached(None, "10.0.0.7") is None
