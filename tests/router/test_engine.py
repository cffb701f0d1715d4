"""Several engines as one: every prompt is answered once, wherever replicas die, come, go or are slow."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import create_engine
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.errors import CancelledError, ConfigError, EngineUnavailableError
from flightllm.llm.cost import Rates
from flightllm.llm.engine import Completion, Engine, KvEventsAddress, Parameters, PrefixCache, Request
from flightllm.router.base import POLICIES, Router
from flightllm.router.engine import RoutedEngine
from flightllm.router.prompt import RoutedPrompt
from tests.kv_publisher import KvPublisher, stored
from tests.servers import await_true


def fake(**options: object) -> Callable[[], Engine]:
    """Return what makes a fake engine that keeps eight prompts in flight."""
    return partial(create_engine, EngineConfig("fake", "demo", 8, options))


class _Held(FakeEngine):
    """A fake engine that hands out each answer only once `go_on` says so."""

    def __init__(self, go_on: Callable[[], bool], options: FakeOptions) -> None:
        super().__init__("demo", 8, options)
        self._go_on = go_on

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Wait before each answer."""
        for completion in super().generate(requests, cancelled):
            await_true(self._go_on)
            yield completion


def together(count: int, **options: Any) -> list[Callable[[], Engine]]:
    """Return what makes fake engines of which none answers before all have prompts, however threads get their turns."""
    made: list[FakeEngine] = []

    def create() -> Engine:
        made.append(_Held(lambda: all(one.sent for one in made), FakeOptions(**options)))
        return made[-1]

    return [create] * count


def requests_of(groups: int, each: int, **given: Any) -> list[Request]:
    """Return requests in groups that share a prefix."""
    texts = [f"{'shared text ' * 20}{group} and number {n}" for group in range(groups) for n in range(each)]
    return [Request(i, text, Parameters(), "ai_gen", "?", (("t", text),), **given) for i, text in enumerate(texts)]


def answers(engine: Engine, requests: Sequence[Request | None]) -> dict[int, str | None]:
    """Ask all of the requests, and check that each is answered once."""
    found = list(engine.generate(iter(requests), lambda: False))
    assert len({completion.id for completion in found}) == len(found)
    return {completion.id: completion.text for completion in found}


@pytest.fixture
def routed() -> Iterator[Callable[..., RoutedEngine]]:
    """Return how to make a routed engine, which is closed in the end."""
    made: list[RoutedEngine] = []

    def make(*replicas: Callable[[], Engine], policy: str = "least_loaded") -> RoutedEngine:
        named = [(f"replica {n}", create) for n, create in enumerate(replicas)]
        made.append(RoutedEngine("cluster", named, policy, 8))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


Make = Callable[..., RoutedEngine]


@pytest.mark.parametrize("policy", POLICIES)
def test_all_are_answered(routed: Make, policy: str) -> None:
    """Every policy has each prompt answered once, as one engine does, by all replicas."""
    engine = routed(*together(3, latency_ms=1.0, cache_blocks=200), policy=policy)
    requests = requests_of(12, 40)
    assert answers(engine, requests) == answers(fake()(), requests)
    status = engine.status()
    assert sum(one.answered for one in status) == len(requests)
    assert all(one.answered for one in status)
    assert {(one.in_flight, one.waiting, one.load_seconds) for one in status} == {(0, 0, 0.0)}


def test_pauses(routed: Make) -> None:
    """Requests that pause in between are answered as those that do not."""
    engine = routed(fake(latency_ms=1.0), fake(latency_ms=1.0))
    requests = requests_of(3, 5)
    paused: list[Request | None] = [one for request in requests for one in (request, None, None)]
    assert answers(engine, paused) == answers(fake()(), requests)


@pytest.mark.slow
def test_more_than_the_horizon(routed: Make) -> None:
    """More prompts than are routed together are all answered."""
    engine = routed(fake(), fake(), fake())
    requests = requests_of(100, 90)
    assert len(answers(engine, requests)) == 9_000


@pytest.mark.parametrize("policy", POLICIES)
def test_deaths(routed: Make, policy: str) -> None:
    """Replicas that die again and again, some of them in turn, cost no answer and double none."""
    engine = routed(fake(die_after=37, latency_ms=1.0), fake(latency_ms=2.0), fake(die_after=60), policy=policy)
    requests = requests_of(12, 40)
    assert answers(engine, requests) == answers(fake()(), requests)
    assert sum(one.answered for one in engine.status()) == len(requests)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_death_that_others_see_first(routed: Make, policy: str) -> None:
    """A call whose client is slow is answered in full where somebody else noticed a death before it did."""
    engine = routed(fake(die_after=40, latency_ms=2.0), fake(latency_ms=2.0), policy=policy)
    requests, found = requests_of(12, 60), []
    for completion in engine.generate(iter(requests), lambda: False):
        found.append(completion.id)
        if len(found) == 20:
            await_true(lambda: any(one.error for one in engine.status()))
            looked = threading.Event()
            for _ in range(10):  # time in which a replica could take up what is not its own any more
                engine.status()
                looked.wait(0.02)
    assert sorted(found) == list(range(len(requests)))
    assert {(one.in_flight, one.waiting) for one in engine.status()} == {(0, 0)}


def test_a_new_replica_takes_over_work(routed: Make) -> None:
    """A replica that comes while all prompts wait at others gets some of them."""
    found, handed_out = list[int](), count()

    def taken_over() -> bool:
        return next(handed_out) < 20 or engine.status()[-1].answered > 100

    engine = routed(lambda: _Held(taken_over, FakeOptions(latency_ms=1.0)), policy="e2_batch")
    for completion in engine.generate(iter(requests_of(20, 30)), lambda: False):
        found.append(completion.id)
        if len(found) == 20:
            engine.add("a new one", fake(latency_ms=1.0))
    assert sorted(found) == list(range(600))
    assert engine.status()[-1].answered > 100


@pytest.mark.slow
def test_many_replicas(routed: Make) -> None:
    """More replicas than have room for their first prompts within the horizon are all used."""
    engine = routed(*together(70, latency_ms=1.0), policy="round_robin")
    assert engine.horizon < 64 * 70
    assert len(answers(engine, requests_of(50, 100))) == 5_000
    assert all(one.answered for one in engine.status())


def test_removed_while_all_are_down(routed: Make) -> None:
    """A replica that is to go while none is up is gone."""
    made = count()

    def create() -> Engine:
        if next(made) > 1:
            raise EngineUnavailableError("no more")
        return fake(die_after=10, latency_ms=1.0)()

    engine = routed(create, create)
    with pytest.raises(EngineUnavailableError, match="no replica"):
        answers(engine, requests_of(4, 40))
    engine.remove(1)
    await_true(lambda: len(engine.status()) == 1)


def test_all_dead(routed: Make) -> None:
    """Where no replica is left the call fails, naming them; later calls work again."""
    ready, made = threading.Event(), count()

    def create() -> Engine:
        if next(made) > 1:
            ready.wait(60)
        return fake(die_after=20, latency_ms=1.0)()

    engine = routed(create, create)
    with pytest.raises(EngineUnavailableError, match="no replica"):
        answers(engine, requests_of(4, 40))
    assert {one.state for one in engine.status()} == {"down"}
    ready.set()
    await_true(lambda: engine.alive)
    assert len(answers(engine, requests_of(1, 4))) == 4


def test_one_does_not_start(routed: Make) -> None:
    """A replica that does not start is left out until it does; if none starts, that is told."""

    def fails() -> Engine:
        raise EngineUnavailableError("no memory")

    engine = routed(fails, fake())
    assert len(answers(engine, requests_of(2, 10))) == 20
    assert [(one.state, one.error) for one in engine.status()][1] == ("up", None)
    assert engine.status()[0].state == "down"
    with pytest.raises(EngineUnavailableError, match="no memory"):
        routed(fails, fails)


class _Counting:
    """A policy, and how many prompts it was given together."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.steal = router.steal
        self.sizes: list[int] = []

    def route(self, prompts: Sequence[RoutedPrompt], now: float) -> list[int]:
        self.sizes.append(len(prompts))
        return self._router.route(prompts, now)


class _Other(FakeEngine):
    """A fake engine that says it is another model."""

    @property
    def revision(self) -> str:
        """Return another revision."""
        return "other"


def test_other_model(routed: Make) -> None:
    """Replicas that would answer differently are refused."""
    with pytest.raises(ConfigError, match="replica 1 has revision 'other', other replicas have 'fake-1'"):
        routed(fake(), lambda: _Other("demo", 8, FakeOptions()))


class _Telling(FakeEngine):
    """A fake engine that tells what its prefix cache holds."""

    kv_events: KvEventsAddress | None = None

    @property
    def prefix_cache(self) -> PrefixCache:
        """Return a cache with blocks of four tokens."""
        return PrefixCache(4, 100)


def test_estimated_until_heard(routed: Make, tmp_path: Path) -> None:
    """What a replica holds is estimated while its engine is not heard, and as the engine says while it is."""
    address = KvEventsAddress(f"ipc://{tmp_path}/events")

    def create() -> Engine:
        engine = _Telling("demo", 8, FakeOptions())
        engine.kv_events = address
        return engine

    engine = routed(create, policy="e2")
    answers(engine, requests_of(1, 5))
    [status] = engine.status()
    assert not status.kv_events
    assert status.held_blocks > 0
    with KvPublisher(address) as publisher:
        await_true(lambda: engine.status()[0].kv_events)
        assert engine.status()[0].held_blocks == 0
        publisher.tell(stored({b"a": [1, 2, 3, 4]}))
        await_true(lambda: engine.status()[0].held_blocks == 1)
        answers(engine, requests_of(1, 5))
        assert engine.status()[0].held_blocks == 1
    await_true(lambda: not engine.status()[0].kv_events)
    answers(engine, requests_of(1, 5))
    assert engine.status()[0].held_blocks > 1


def test_cancelled(routed: Make) -> None:
    """A cancelled call stops, leaves nothing behind on the replicas, and others go on."""
    engine = routed(fake(latency_ms=200.0), fake(latency_ms=200.0))
    with pytest.raises(CancelledError):
        list(engine.generate(iter(requests_of(4, 100)), lambda: engine.in_flight > 0))
    assert {(one.in_flight, one.waiting) for one in engine.status()} == {(0, 0)}
    assert len(answers(engine, requests_of(1, 4))) == 4


def test_left_early(routed: Make) -> None:
    """A call that nobody reads to its end leaves nothing behind."""
    engine = routed(fake(latency_ms=5.0), fake(latency_ms=5.0))
    with closing(cast("Any", engine.generate(iter(requests_of(4, 100)), lambda: False))) as completions:
        assert next(completions).text is not None
    assert {(one.in_flight, one.waiting, one.load_seconds) for one in engine.status()} == {(0, 0, 0.0)}


def test_urgent_queries_are_noted_as_a_whole(routed: Make) -> None:
    """The first prompts of a query do not tell how urgent it is, so a query that is left early says nothing."""
    engine = routed(fake(), fake())

    def begun() -> Iterator[Request | None]:
        yield from requests_of(1, 4)
        while True:
            yield None

    with closing(cast("Any", engine.generate(begun(), lambda: False))) as completions:
        assert next(completions).text is not None
    assert not engine.arrivals.comes_before(99)
    answers(engine, requests_of(1, 4))
    assert engine.arrivals.comes_before(99)


def test_calls_at_the_same_time(routed: Make) -> None:
    """Several calls share the replicas, and a death among them costs none of them an answer."""
    engine = routed(fake(die_after=50, latency_ms=1.0), fake(latency_ms=1.0))
    requests, expected = requests_of(6, 30), answers(fake()(), requests_of(6, 30))
    found: list[dict[int, str | None]] = []
    threads = [threading.Thread(target=lambda: found.append(answers(engine, requests))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 5


def test_replicas_come_and_go(routed: Make) -> None:
    """A replica that is added gets prompts; one that is removed ends those it has, and is closed."""
    engine = routed(fake(latency_ms=2.0), fake(latency_ms=2.0), policy="least_loaded")
    requests = requests_of(10, 60)
    seen: list[Completion] = []
    for completion in engine.generate(iter(requests), lambda: False):
        seen.append(completion)
        if len(seen) == 20:
            number = engine.add("a new one", fake(latency_ms=1.0))
            engine.remove(0)
    assert {c.id for c in seen} == set(range(len(requests)))
    await_true(lambda: len(engine.status()) == 2)
    assert [one.number for one in engine.status()] == [1, number]
    await_true(lambda: engine.status()[1].state == "up")
    answers(engine, requests)
    assert engine.status()[1].answered > 0
    engine.remove(number)
    with pytest.raises(ValueError, match="the last replica cannot be removed"):
        engine.remove(1)


@pytest.mark.slow
def test_waves(routed: Make) -> None:
    """Prompts are routed by the wave, also once a replica has gone."""
    engine = routed(*(fake(latency_ms=1.0) for _ in range(3)))
    router = engine._router = _Counting(engine.router)
    for answered, _ in enumerate(engine.generate(iter(requests_of(150, 80)), lambda: False)):
        if answered == 500:
            engine.remove(0)
    assert router.sizes[0] == 3 * 64
    assert len(router.sizes) < 600  # about 40, unless a busy machine lets replicas run dry


def test_what_is_open_is_predicted_anew(routed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts that were routed before anything was known of answers count for less once these turn out to be short."""
    rates, handed_out, release = Rates(), count(), threading.Event()

    def go_on() -> bool:
        return release.is_set() or next(handed_out) < 600  # so that 200 are open then, however slow the reader is

    engine = routed(*[lambda: _Held(go_on, FakeOptions(latency_ms=1.0))] * 2)
    monkeypatch.setattr(engine.costs, "rates", lambda: rates)  # and not how fast this machine is
    for answered, _ in enumerate(engine.generate(iter(requests_of(10, 80)), lambda: False), 1):
        if answered == 600:
            rates = Rates(completion=2 * rates.completion)
            status = engine.status()
            prompts = sum(one.in_flight + one.waiting for one in status)
            assert sum(one.load_seconds for one in status) < prompts * rates.decode(Parameters().max_tokens) / 4
            release.set()
    assert release.is_set()


def test_failing_prompts(routed: Make) -> None:
    """A prompt that fails by itself fails alone."""
    engine = routed(fake(fail_containing="number 7"), fake(fail_containing="number 7"))
    found = list(engine.generate(iter(requests_of(3, 10)), lambda: False))
    assert sum(completion.error is not None for completion in found) == 3


def test_what_requests_raise(routed: Make) -> None:
    """What goes wrong while requests are made is told as it is."""

    def broken() -> Iterator[Request]:
        yield from requests_of(1, 3)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(routed(fake(), fake()).generate(broken(), lambda: False))


class _Rounds(FakeEngine):
    """A fake engine with eight places. While it is `held`, it answers all of its prompts together, in rounds."""

    def __init__(self) -> None:
        super().__init__("demo", 8, FakeOptions(latency_ms=1.0, cache_blocks=1_000))
        self.held = False
        self.prompts: list[tuple[str, asyncio.Future[None]]] = []

    async def _answer_late(self, chunk: Sequence[Request]) -> list[Completion]:
        if self.held:
            future = asyncio.get_running_loop().create_future()
            self.prompts.append((chunk[0].function, future))
            await future
        return [self._answer(request) for request in chunk]

    def full(self) -> bool:
        """Return whether two queries have taken all places, and one of them waits for more."""
        shares = self._shares._open
        return len(self.prompts) == 8 and len(shares) == 2 and any(share.queue_number for share in shares)

    def round(self) -> Counter[str]:
        """Wait until no place is free, answer the prompts, and return how many belong to each function."""
        await_true(self.full)
        answered, self.prompts = self.prompts, []
        for _, future in answered:
            self._loop().call(partial(future.set_result, None))
        return Counter(function for function, _ in answered)


def _asked(function: str, text: Callable[[int], str], many: int, user: str = "") -> list[Request]:
    return [Request(n, text(n), Parameters(), function, "?", (("t", text(n)),), user=user) for n in range(many)]


@pytest.mark.parametrize("others", [False, True])
def test_queries_meet_in_one_queue(routed: Make, others: bool) -> None:
    """A query whose prompts are cached passes one whose are not, and does not starve it; users have equal parts."""
    made: list[_Rounds] = []

    def create() -> Engine:
        made.append(_Rounds())
        return made[-1]

    engine = routed(create, policy="e2_batch")
    [rounds] = made
    warm = _asked("warm", lambda n: f"{'shared text ' * 60}{n}", 200, "bob" if others else "ann")
    cold = _asked("cold", lambda n: f"{n} {'other text ' * 60}", 200, "ann")
    list(engine.generate(iter(warm[:1]), lambda: False))
    rounds.held = True
    stopped = threading.Event()

    def ask(requests: Sequence[Request]) -> None:
        with suppress(CancelledError):
            list(engine.generate(iter(requests), stopped.is_set))

    threads = [threading.Thread(target=ask, args=(requests,)) for requests in (cold, warm)]
    for thread in threads:
        thread.start()
    while len(rounds.round()) < 2:  # until prompts of both have met
        pass
    found = sum((rounds.round() for _ in range(8)), Counter[str]())
    stopped.set()
    for thread in threads:
        thread.join()
    if others:
        assert abs(found["warm"] - found["cold"]) <= 8
    else:
        assert found["warm"] >= 2 * found["cold"] >= 32
    await_true(lambda: rounds.in_flight == 0)
    assert {(one.in_flight, one.waiting, one.load_seconds) for one in engine.status()} == {(0, 0, 0.0)}
