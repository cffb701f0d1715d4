"""The callers of one engine get about equal parts of its window and of its lock."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.engines.fair_lock import FairLock
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.shares import Share, Shares
from flightllm.errors import EngineUnavailableError
from flightllm.llm.engine import Completion, Parameters, Request
from tests.servers import await_true


def _open(shares: Shares) -> Share:
    return shares.open(lambda: None)


def test_one_caller_has_all() -> None:
    """A single caller gets the whole window."""
    shares = Shares(8)
    share = _open(shares)
    assert (share.take(100), share.take(1), shares.in_flight) == (8, 0, 8)


def test_a_second_caller_gets_its_part_as_answers_come() -> None:
    """A caller above its fair part gets nothing while another caller is below; in the end both hold the same."""
    shares = Shares(8)
    woken: list[int] = []
    first, second = _open(shares), shares.open(lambda: woken.append(1))
    assert (first.take(100), second.take(10)) == (8, 0)
    for _ in range(4):
        first.give_back(1)
        assert first.take(100) == 0
        assert second.take(10) == 1
    assert (first.held, second.held, len(woken)) == (4, 4, 4)
    first.give_back(1)
    assert (second.take(10), first.take(10)) == (0, 1)


def test_what_a_caller_leaves_goes_to_the_others() -> None:
    """A caller with few prompts leaves the rest of its part to others, and its places once it is closed."""
    shares = Shares(8)
    first, second = _open(shares), _open(shares)
    assert (second.take(2), first.take(100)) == (2, 6)
    second.close()
    second.close()
    second.give_back(2)
    assert (first.take(100), shares.in_flight) == (2, 8)


def test_many_callers() -> None:
    """With more callers than places, each caller gets one in turn; callers take whole chunks or nothing."""
    shares = Shares(2)
    callers = [_open(shares) for _ in range(3)]
    assert [caller.take(5) for caller in callers] == [2, 0, 0]
    for waiting in callers[1:]:
        callers[0].give_back(1)
        assert [callers[0].take(5), waiting.take(5)] == [0, 1]
    chunks = Shares(8)
    bulk, other = _open(chunks), _open(chunks)
    assert (bulk.take(7, chunk=4), other.take(3, chunk=4), other.take(8, chunk=4)) == (4, 0, 4)


def test_places_of_prompts_that_rest() -> None:
    """Others fill their parts while a caller's prompts wait for another prompt; the caller itself gets no more."""
    shares = Shares(8)
    woken: list[int] = []
    first, second = _open(shares), shares.open(lambda: woken.append(1))
    assert (first.take(100), second.take(5)) == (8, 0)
    shares.rest(7)
    assert (len(woken), first.take(100), second.take(5), second.take(5)) == (1, 0, 4, 0)
    shares.rest(-7)
    second.give_back(4)
    assert (first.take(100), second.take(5)) == (0, 0)


def test_the_example_of_take() -> None:
    """The table in the docstring of `Shares.take` holds: B gets both free places, A and C get nothing."""
    shares = Shares(9)
    a, b, c = (_open(shares) for _ in range(3))
    assert (c.take(1), a.take(8)) == (1, 8)
    assert (b.take(5), c.take(5)) == (0, 0)
    a.give_back(2)
    assert [(share.held, share.queue_number) for share in (a, b, c)] == [(6, 0), (0, 1), (1, 2)]
    assert (c.take(5), a.take(5), b.take(5)) == (0, 0, 2)


def _requests(count: int, function: str = "ai_gen") -> Iterator[Request]:
    return (Request(n, f"prompt {n}", Parameters(), function, "", (("n", str(n)),)) for n in range(count))


class _Rounds(FakeEngine):
    """A fake engine with a window of eight prompts; it answers all of them together when the test says so."""

    def __init__(self) -> None:
        super().__init__("demo", 8, FakeOptions(latency_ms=1.0))
        self.open: list[tuple[Sequence[Request], asyncio.Future[None]]] = []
        self.queries: list[threading.Thread] = []

    async def _answer_late(self, chunk: Sequence[Request]) -> list[Completion]:
        future = asyncio.get_running_loop().create_future()
        self.open.append((chunk, future))
        await future
        return [self._answer(request) for request in chunk]

    def begin(self, function: str, count: int) -> None:
        """Send prompts from a new thread that reads the answers."""

        def ask() -> None:
            with suppress(EngineUnavailableError):  # the test ends first
                for _ in self.generate(_requests(count, function), lambda: False):
                    pass

        self.queries.append(threading.Thread(target=ask, daemon=True))
        self.queries[-1].start()

    def is_full(self) -> bool:
        """Return whether the window is full."""
        return sum(len(chunk) for chunk, _ in self.open) == 8

    def second_waits(self) -> bool:
        """Return whether the second query waits for places."""
        return len(self._shares._open) == 2 and self._shares._open[1].queue_number > 0

    def round(self) -> Counter[str]:
        """Wait until the window is full, answer its prompts, and return how many belong to each query."""
        await_true(self.is_full)
        answered, self.open = self.open, []
        for _, future in answered:
            self._loop().call(partial(future.set_result, None))
        return Counter(request.function for chunk, _ in answered for request in chunk)


@pytest.fixture
def rounds() -> Iterator[_Rounds]:
    """Return an engine that answers only when the test says so."""
    engine = _Rounds()
    yield engine
    engine.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Return an engine with a window of eight prompts and 5 ms of latency."""
    engine = create_engine(EngineConfig("fake", "demo", 8, {"latency_ms": 5}))
    yield engine
    engine.close()


def test_a_short_query_beside_a_long_one(rounds: _Rounds) -> None:
    """A long query fills the window; ten prompts of a short query are answered before forty of the long one."""
    rounds.begin("long", 400)
    assert rounds.round() == {"long": 8}
    await_true(rounds.is_full)  # otherwise the short query can take the free places first
    rounds.begin("short", 10)
    await_true(rounds.second_waits)
    answered: Counter[str] = Counter()
    while answered["short"] < 10:
        answered += rounds.round()
        assert answered["long"] <= 40


def test_equal_queries_end_together(rounds: _Rounds) -> None:
    """Two queries with equally many prompts progress side by side, also if one starts later."""
    answered: Counter[str] = Counter()
    for name in "ab":
        rounds.begin(name, 200)
        await_true(rounds.is_full)
    await_true(rounds.second_waits)
    for _ in range(25):
        answered += rounds.round()
    assert 70 <= answered["a"] <= 130
    for _ in range(25):
        answered += rounds.round()
    for thread in rounds.queries:
        thread.join(60)
        assert not thread.is_alive()
    assert answered == {"a": 200, "b": 200}


def test_a_client_that_reads_no_further_holds_nothing(engine: Engine) -> None:
    """A client that stops reading does not block the prompts of other clients."""
    stalled = engine.generate(_requests(100), lambda: False)
    next(stalled)
    assert len(list(engine.generate(_requests(30), lambda: False))) == 30
    stalled.close()  # type: ignore[attr-defined]


def test_lock_in_order_of_arrival() -> None:
    """A thread that releases the lock and wants it again comes after the threads that waited."""
    lock, order, threads = FairLock(), list[int](), list[threading.Thread]()

    def enter(number: int) -> None:
        with lock:
            order.append(number)

    with lock:
        for number in range(3):
            threads.append(threading.Thread(target=enter, args=(number,)))
            threads[-1].start()
            await_true(lambda number=number: len(lock._waiting) > number)  # type: ignore[misc]
    with lock:
        order.append(3)
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3]
