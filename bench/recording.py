"""An engine that answers at once and records its prompts in order, with the tokens of a real model."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from bench.common import read_to_end
from flightllm.common.package_data import demo_model
from flightllm.config import EngineConfig
from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.registry import Engines
from flightllm.llm.engine import Choice, Completion, More, PrefixCache, Request, pull
from flightllm.llm.tokenizer import PromptEncoder
from flightllm.router.tree import pack
from flightllm.session.database import Database


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt as sent. `tokens` are packed by `flightllm.router.tree.pack`."""

    tokens: bytes
    answer_tokens: int
    """The tokens of its answer."""
    most_tokens: int
    """The most tokens that its answer can have."""
    call: str
    """The function and its instruction."""


class RecordingEngine(FakeEngine):
    """Records requests and keeps at most `horizon` of them unanswered.

    Like a cluster, it pulls further requests when half of these are answered.

    `cache` is the shape of the prefix cache that the engine reports to the planner.
    """

    def __init__(self, horizon: int, cache: PrefixCache) -> None:
        super().__init__("demo", horizon, FakeOptions())
        self._horizon = horizon
        self._shape = cache
        self._encoder = encoder()
        self._lengths: dict[str, int] = {}
        self.asked: list[Asked] = []

    @property
    def prefix_cache(self) -> PrefixCache:
        """Return the prefix cache that the planner must assume."""
        return self._shape

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text for the demo model."""
        return self._encoder.count(text)

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the demo model's tokens."""
        return self._encoder.encode(prompts)

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield answers in the order of the requests, as late as the horizon allows."""
        waiting: deque[Request] = deque()
        more = More.READY
        while more is not More.ENDED or waiting:
            if more is not More.ENDED:
                pulled, more = pull(requests, self._horizon - len(waiting), cancelled)
                self._record(pulled)
                waiting += pulled
            for _ in range(max(1, len(waiting) // 2) if waiting else 0):
                yield self._answer(waiting.popleft())
            more = More.ENDED if more is More.ENDED else More.READY

    def _record(self, requests: Sequence[Request]) -> None:
        ids = self.token_ids([request.prompt for request in requests]) if requests else []
        for request, tokens in zip(requests, ids, strict=True):
            most = request.limit
            call = f"{request.function}: {request.instruction}"
            self.asked.append(Asked(pack(tokens), min(most, self._length(request)), most, call))

    def _length(self, request: Request) -> int:
        """Return the number of tokens of an answer. Text without a constraint has as many tokens as its limit."""
        if request.parameters.constraint is None:
            return request.limit
        text = self._answer(request).text or ""
        if not isinstance(request.parameters.constraint, Choice):
            return self.count_tokens(text) + 1
        if text not in self._lengths:
            self._lengths[text] = self.count_tokens(text) + 1  # one more for the end token
        return self._lengths[text]


@cache
def encoder() -> PromptEncoder:
    """Return the demo model's tokenizer."""
    return PromptEncoder(demo_model())


def asked_by(database: Database, sql: str, horizon: int, cache: PrefixCache) -> tuple[Asked, ...]:
    """Run a query of a database on an engine that records, without cached answers; return its prompts."""
    engine = RecordingEngine(horizon, cache)
    services = database._services  # noqa: SLF001 - only benchmarks and tests put another engine under a database
    engines = Engines(services.config.engine, services.objects.engine, create=lambda _: engine)
    recorded = Database(replace(services, engines=engines), database.queries)
    read_to_end(recorded.session().execute(sql, settings={"cache": "off"}).batches)
    return tuple(engine.asked)


CONFIG = EngineConfig("fake")
"""The configuration of a database's engine before `asked_by` replaces it."""
