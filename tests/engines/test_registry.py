"""Several engines in one server: opened once when needed, closed after their last user."""

import threading

import pytest

from flightllm.config import EngineConfig
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.registry import Engines
from flightllm.errors import CancelledError, ConfigError, EngineError, EngineUnavailableError
from flightllm.llm.engine import Engine
from tests.servers import await_true

OWN = EngineConfig("fake", "own")


class Watched(FakeEngine):
    """A fake engine that knows whether it was closed."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config.model, config.max_in_flight, FakeOptions())
        self.closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


class Described:
    """What SQL says of models, and the engines made of it."""

    def __init__(self, **models: EngineConfig) -> None:
        self.models = models
        self.made: list[Watched] = []
        self.engines = Engines(OWN, self.models.get, self.make)

    def make(self, config: EngineConfig) -> Engine:
        """Make an engine; a model called bad cannot be opened."""
        if config.model == "bad":
            raise ConfigError("[engine] model: bad")
        if config.model == "broken":
            raise RuntimeError("/secret/path")
        self.made.append(Watched(config))
        return self.made[-1]


def test_opened_once() -> None:
    """Each model is opened when it is first used, once, and knows its own costs and answers."""
    described = Described(a=EngineConfig("fake", "a", 3), b=EngineConfig("fake", "b"))
    engines = described.engines
    assert described.made == []
    own = engines.own
    with engines.using([None, "a"]) as first, engines.using(["a"]) as second:
        assert first[None] is own
        assert first["a"] is second["a"]
        assert first["a"].window == 3
        assert first["a"].costs is not own.costs
        assert first["a"].learned is not own.learned
    assert [engine.name for engine in described.made] == ["fake (own)", "fake (a)"]
    assert (engines.state("a"), engines.state("b")) == ((True, None), (False, None))
    assert not any(engine.closed for engine in described.made)
    engines.close()
    engines.close()
    assert all(engine.closed for engine in described.made)
    with pytest.raises(EngineUnavailableError, match="the server is stopping"), engines.using(["a"]):
        pass


def test_opened_once_by_many() -> None:
    """Threads that need the same model at the same time share one engine."""
    described = Described(a=EngineConfig("fake", "a"))
    together = threading.Barrier(8)

    def use() -> None:
        together.wait()
        with described.engines.using(["a"]):
            together.wait()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(described.made) == 1


@pytest.mark.parametrize("then", [None, EngineConfig("fake", "new")])
def test_changed_while_used(then: EngineConfig | None) -> None:
    """Who uses a model that is dropped or described anew keeps it to the end; it is closed after the last."""
    described = Described(a=EngineConfig("fake", "a"))
    engines = described.engines
    with engines.using(["a"]) as outer:
        with engines.using(["a"]):
            described.models.pop("a")
            if then is not None:
                described.models["a"] = then
            engines.settle("a")
            assert not described.made[0].closed
        assert outer["a"].engine is described.made[0]
        assert not described.made[0].closed
        if then is None:
            with pytest.raises(EngineError, match="the model 'a' was dropped"), engines.using(["a"]):
                pass
        else:
            with engines.using(["a"]) as new:
                assert new["a"].engine.name == "fake (new)"
    assert [engine.closed for engine in described.made] == [True, *([False] if then else [])]


def test_changed_unused() -> None:
    """One that nobody uses is closed at once; without word of the change, when it is next used."""
    described = Described(a=EngineConfig("fake", "a"), b=EngineConfig("fake", "b"))
    with described.engines.using(["a", "b"]):
        pass
    del described.models["a"]
    described.engines.settle("a")
    described.engines.settle("never opened")
    assert [engine.closed for engine in described.made] == [True, False]
    described.models["b"] = EngineConfig("fake", "other")
    with described.engines.using(["b"]):
        assert [engine.closed for engine in described.made] == [True, True, False]


@pytest.mark.parametrize(
    ("model", "kind", "message"),
    [
        ("bad", EngineError, "^the model 'a' cannot be used: model: bad$"),
        ("broken", EngineUnavailableError, "^the model 'a' did not start: RuntimeError; see the server's log$"),
    ],
)
def test_cannot_be_opened(model: str, kind: type[Exception], message: str) -> None:
    """An engine that cannot be made says so to those who need it; others go on, and it is tried again."""
    described = Described(a=EngineConfig("fake", model))
    with pytest.raises(kind, match=message), described.engines.using(["a"]):
        pass
    loaded, error = described.engines.state("a")
    assert not loaded
    assert error
    assert described.engines.own.engine.name == "fake (own)"
    described.models["a"] = EngineConfig("fake", "mended")
    with described.engines.using(["a"]):
        assert described.engines.state("a") == (True, None)


class Slow(Described):
    """Has a model `slow`, which opens when the test says so."""

    def __init__(self) -> None:
        super().__init__(slow=EngineConfig("fake", "slow"))
        self.opening, self.go_on = threading.Event(), threading.Event()

    def make(self, config: EngineConfig) -> Engine:
        """Wait, if it is the slow one."""
        if config.model == "slow":
            self.opening.set()
            assert self.go_on.wait(30)
        return super().make(config)

    def use(self) -> None:
        """Use it for a moment."""
        with self.engines.using(["slow"]):
            pass


def test_slow_one_holds_up_nobody_else() -> None:
    """While one model opens, others are used, and who waits for it may stop waiting."""
    slow = Slow()
    thread = threading.Thread(target=slow.use)
    thread.start()
    assert slow.opening.wait(30)
    assert slow.engines.own.engine.name == "fake (own)"
    assert slow.engines.state("slow") == (False, None)
    with pytest.raises(CancelledError), slow.engines.using(["slow"], lambda: True):
        pass
    slow.go_on.set()
    thread.join()
    assert slow.engines.state("slow") == (True, None)
    assert [engine.closed for engine in slow.made] == [False, False]


@pytest.mark.parametrize("end", ["drop", "close"])
def test_dropped_while_it_opens(end: str) -> None:
    """A model that nobody waits for any more when it is dropped, or the server stops, is closed once it is open."""
    slow = Slow()
    with pytest.raises(CancelledError), slow.engines.using(["slow"], lambda: slow.opening.wait(30)):
        pass
    if end == "drop":
        del slow.models["slow"]
        slow.engines.settle("slow")
    else:
        slow.engines.close()
    slow.go_on.set()
    await_true(lambda: [engine.closed for engine in slow.made] == [True])
