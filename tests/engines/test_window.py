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
