"""The thread that looks after replicas, on fake engines: it adds, removes and revives them."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.errors import EngineUnavailableError
from flightllm.llm.engine import Completion, Parameters, Request
from flightllm.router.autoscaler import Autoscaler
from flightllm.router.engine import RoutedEngine
from flightllm.router.scaling import Scaling
from tests.servers import await_true


class Mortal(FakeEngine):
    """A fake engine whose death is known before it is asked, as that of one in another process."""

    alive = True

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer, or say that it is dead, also where nothing is asked."""
        if not self.alive:
            raise EngineUnavailableError("it died")
        yield from super().generate(requests, cancelled)


def requests_of(count: int) -> list[Request]:
    """Return requests."""
    return [Request(i, f"question {i}", Parameters(), "ai_gen", "?", (("n", str(i)),)) for i in range(count)]


@pytest.mark.slow
def test_out_and_in() -> None:
    """A backlog brings replicas, up to the most; without work they go, down to the least."""
    create = partial(create_engine, EngineConfig("fake", "demo", 8, {"latency_ms": 40.0}))
    engine = RoutedEngine("many", [("one 0", create)], "least_loaded", 8)
    scaler = Autoscaler(engine, "one", create, Scaling(1, 3, 0.2, 0.2, 1.0))
    stream = engine.generate(iter(requests_of(100_000)), lambda: False)
    for _ in stream:
        there = [one for one in engine.status() if one.state != "leaving"]
        assert len(there) <= 3
        if sum(one.answered > 0 for one in there) == 3:
            break
    else:
        pytest.fail("three replicas never answered")
    stream.close()  # type: ignore[attr-defined]
    await_true(lambda: engine.replicas == 1, 60)
    scaler.close()
    scaler.close()
    engine.close()


def test_dead_while_idle() -> None:
    """An engine that died while nobody asked is opened again."""
    made: list[Mortal] = []

    def create() -> Engine:
        made.append(Mortal("demo", 8, FakeOptions()))
        return made[-1]

    engine = RoutedEngine("many", [("one 0", create)], "least_loaded", 8)
    scaler = Autoscaler(engine, "one", create, Scaling())
    made[0].close()
    made[0].alive = False
    await_true(lambda: len(made) == 2 and engine.alive, 60)
    assert len(list(engine.generate(iter(requests_of(5)), lambda: False))) == 5
    scaler.close()
    engine.close()
