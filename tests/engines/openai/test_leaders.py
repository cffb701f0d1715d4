"""One prompt of a common start goes ahead; if it fails, another one does, and other users do not wait for it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

import pytest

from flightllm.config import EngineConfig
from flightllm.engines import Engine, create_engine
from flightllm.engines.cache_rules import rules_of
from flightllm.engines.openai.cache_observer import CacheObserver
from flightllm.engines.openai.leaders import Leaders
from flightllm.engines.prompt_parts import PromptParts
from flightllm.llm.engine import Completion, Parameters, PrefixCache, Request
from tests.endpoints import Body, Endpoint, Reply, answer, endpoint_of, refuse

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

START = "The common start. " * 400
TIMEOUT = 60


def cold() -> CacheObserver:
    """Return an empty cache by OpenAI's rules."""
    return CacheObserver(rules_of("openai", "gpt-4.1"), PrefixCache(16, 1_024, at_once=False), len)


class Crowd:
    """Prompts of one start that ask for their turns; a test ends each one by hand."""

    def __init__(self, seconds: float) -> None:
        self.resting = 0
        self.leaders = Leaders(cold(), self._rest, seconds)
        self.running: list[int] = []
        self.ends: dict[int, asyncio.Future[bool]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def _rest(self, more: int) -> None:
        self.resting += more

    async def ask(self, number: int) -> None:
        """Ask for a turn, and hold it until the test says how it ends."""
        async with self.leaders.turn(lambda: PromptParts(f"{START}{number}")) as turn:
            self.running.append(number)
            if await self.ends.setdefault(number, asyncio.get_running_loop().create_future()):
                turn.arrived()

    async def settled(self, count: int = 0) -> list[int]:
        """Let `count` more prompts ask, and return those that run once nothing moves."""
        first = len(self.tasks)
        self.tasks += [asyncio.create_task(self.ask(first + number)) for number in range(count)]
        for _ in range(20):
            await asyncio.sleep(0)
        return self.running


def play(scene: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a scene on an event loop."""
    asyncio.run(scene())


@pytest.mark.parametrize("cancelled", [False, True])
def test_another_leads_after_a_failure(cancelled: bool) -> None:
    """After a leader that fails or is cancelled, exactly one of the others leads; after a success, all go."""

    async def scene() -> None:
        crowd = Crowd(TIMEOUT)
        assert await crowd.settled(4) == [0]
        assert crowd.resting == 3
        for failed in (0, 1):
            if cancelled:
                crowd.tasks[failed].cancel()
            else:
                crowd.ends[failed].set_result(False)
            assert await crowd.settled() == list(range(failed + 2))
        crowd.tasks[3].cancel()  # a prompt that waits no longer counts, and disturbs nobody
        assert await crowd.settled(1) == [0, 1, 2]
        assert crowd.resting == 1
        crowd.ends[2].set_result(True)
        assert await crowd.settled() == [0, 1, 2, 4]
        assert crowd.resting == 0

    play(scene)


def test_a_slow_leader() -> None:
    """Nobody waits longer than the deadline; a slow leader that ends late does not end a newer one's turn."""

    async def scene() -> None:
        crowd = Crowd(0)
        assert await crowd.settled(1) == [0]
        assert await crowd.settled(1) == [0, 1]  # it waited in vain
        crowd.leaders.seconds = TIMEOUT
        assert await crowd.settled(1) == [0, 1, 2]  # the next one leads anew
        crowd.ends[0].set_result(False)
        assert await crowd.settled(1) == [0, 1, 2]
        crowd.ends[2].set_result(True)
        assert await crowd.settled() == [0, 1, 2, 3]

    play(scene)


@contextmanager
def serving(behave: Callable[[str, Body, int], Reply]) -> Iterator[tuple[Engine, Endpoint]]:
    """Run a stand-in of OpenAI's API, and an engine on it."""
    with endpoint_of(behave) as endpoint:
        told = {"base_url": endpoint.url, "provider": "openai", "api_key_env": "PATH"}  # any variable that is set
        engine = create_engine(EngineConfig("openai", "gpt-4.1", 8, told))
        try:
            yield engine, endpoint
        finally:
            engine.close()


def run(engine: Engine, prompts: list[str]) -> list[Completion]:
    """Return the completions of some prompts, in their order."""
    asked = [Request(place, text, Parameters(), "ai_gen", "", ()) for place, text in enumerate(prompts)]
    return sorted(engine.generate(iter(asked), lambda: False), key=lambda one: one.id)


def test_a_refused_form_is_learned_once() -> None:
    """While the leader finds the form that the endpoint accepts, the others wait, and all use that form."""

    def behave(path: str, body: Body, _: int) -> Reply:
        return refuse(400, "Unknown parameter: 'temperature'.") if "temperature" in body else answer(path, body)

    with serving(behave) as (engine, endpoint):
        assert [one.error for one in run(engine, [f"{START}{number}" for number in range(8)])] == [None] * 8
        assert len(endpoint.bodies) == 9


def test_another_user_does_not_wait_for_a_leader() -> None:
    """While seven prompts wait for their leader, a short query of another user has its answer."""
    answered = threading.Event()

    def behave(path: str, body: Body, _: int) -> Reply:
        if "common" in body["messages"][0]["content"]:
            answered.wait(TIMEOUT)
        return answer(path, body)

    with serving(behave) as (engine, endpoint):
        first = threading.Thread(target=run, args=(engine, [f"{START}{number}" for number in range(30)]))
        first.start()
        while not endpoint.bodies:
            threading.Event().wait(0.005)
        assert run(engine, ["short"])[0].error is None
        assert len(endpoint.bodies) == 2
        answered.set()
        first.join(TIMEOUT)
        assert len(endpoint.bodies) == 31
