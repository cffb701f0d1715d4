"""The window between a generator and an event loop, where the loop is closed under it."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from flightllm.engines.shares import Shares
from flightllm.engines.window import LoopThread, Window
from flightllm.errors import EngineUnavailableError
from flightllm.llm.engine import Completion, Request
from tests.servers import await_true

MakeRequests = Callable[..., list[Request]]


async def answer(chunk: Sequence[Request]) -> list[Completion]:
    """Answer too late."""
    await asyncio.sleep(60)
    return [Completion(request.id, "yes") for request in chunk]


def test_closed_before_a_chunk_is_begun(make_requests: MakeRequests) -> None:
    """A call whose chunks wait for the loop when it is closed is told so, and does not wait for their answers."""
    loop, gate, shares, told = LoopThread("test"), threading.Event(), Shares(8), []
    pulled, submitted = threading.Event(), threading.Event()
    loop.call(gate.wait)

    def requests() -> Iterator[Request]:
        yield from make_requests(4)
        pulled.set()

    def cancelled() -> bool:
        if pulled.is_set():  # asked again while it waits for answers
            submitted.set()
        return False

    def ask() -> None:
        try:
            list(Window(loop, answer, 8, shares=shares).stream(requests(), cancelled))
        except EngineUnavailableError as error:
            told.append(str(error))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert submitted.wait(30)
    closing = threading.Thread(target=loop.close, daemon=True)
    closing.start()
    await_true(lambda: loop.closed)
    gate.set()
    for thread in (asking, closing):
        thread.join(30)
        assert not thread.is_alive()
    assert told == ["the engine was closed while it was answering"]
    assert shares.in_flight == 0


def test_a_closed_loop(make_requests: MakeRequests) -> None:
    """Nothing runs on a loop that was closed; a call on it is told so."""
    loop = LoopThread("test")
    loop.close()
    loop.close()
    assert not loop.call(lambda: pytest.fail("it ran"))
    with pytest.raises(EngineUnavailableError, match="the engine is closed"):
        list(Window(loop, answer, 4).stream(iter(make_requests(4)), lambda: False))


async def answer_prepared(chunk: Sequence[tuple[Request, int]]) -> list[Completion]:
    """Answer with what was prepared."""
    return [Completion(request.id, str(length)) for request, length in chunk]


def test_requests_are_prepared_together(make_requests: MakeRequests) -> None:
    """Requests that are pulled together are prepared together, in the caller's thread; each gets its own answer."""
    loop = LoopThread("test")
    waves: list[tuple[int, threading.Thread]] = []

    def prepare(requests: Sequence[Request]) -> Sequence[tuple[Request, int]]:
        waves.append((len(requests), threading.current_thread()))
        return [(request, len(request.prompt)) for request in requests]

    requests = make_requests(40)
    window = Window(loop, answer_prepared, 64, prepare=prepare)
    found = {one.id: one.text for one in window.stream(iter(requests), lambda: False)}
    loop.close()
    assert found == {request.id: str(len(request.prompt)) for request in requests}
    assert sum(count for count, _ in waves) == 40
    assert max(count for count, _ in waves) == 16
    assert {thread for _, thread in waves} == {threading.current_thread()}


def test_a_failed_preparation(make_requests: MakeRequests) -> None:
    """An error of the preparation ends the call, and the requests keep no places."""
    loop, shares = LoopThread("test"), Shares(8)

    def prepare(requests: Sequence[Request]) -> Sequence[object]:
        raise EngineUnavailableError(f"{len(requests)} requests")

    with pytest.raises(EngineUnavailableError, match="4 requests"):
        list(Window(loop, answer, 8, shares=shares, prepare=prepare).stream(iter(make_requests(4)), lambda: False))
    loop.close()
    assert shares.in_flight == 0


def test_answers_of_one_turn_come_together(make_requests: MakeRequests) -> None:
    """Answers that end in the same turn of the loop come before the error of a later one."""
    loop, gate = LoopThread("test"), asyncio.Event()

    async def at_once(chunk: Sequence[Request]) -> list[Completion]:
        if chunk[0].id == 3:
            gate.set()
        await gate.wait()
        if chunk[0].id == 2:
            raise EngineUnavailableError("gone")
        return [Completion(request.id, "yes") for request in chunk]

    found: list[int] = []
    with pytest.raises(EngineUnavailableError, match="gone"):
        found.extend(one.id for one in Window(loop, at_once, 8).stream(iter(make_requests(4)), lambda: False))
    loop.close()
    assert {0, 1} <= set(found)


def test_answers_of_one_turn_come_before_the_end_of_a_cancelled_task(make_requests: MakeRequests) -> None:
    """Answers that end in the turn in which another task is cancelled come before the error about this task."""
    loop, gate = LoopThread("test"), asyncio.Event()

    async def at_once(chunk: Sequence[Request]) -> list[Completion]:
        if chunk[0].id == 3:
            gate.set()
            await asyncio.sleep(60)  # an answer of its own would wake the caller a turn earlier
        await gate.wait()
        if chunk[0].id == 0:
            raise asyncio.CancelledError
        return [Completion(request.id, "yes") for request in chunk]

    found: list[int] = []
    with pytest.raises(EngineUnavailableError, match="the engine was closed while it was answering"):
        found.extend(one.id for one in Window(loop, at_once, 8).stream(iter(make_requests(4)), lambda: False))
    loop.close()
    assert {1, 2} <= set(found)
