"""Learn from a query's calls while they run: the shape of answers, and the engine's speed."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flightllm.engines.health import Health
from flightllm.engines.learned import Asked, Learned, asked_by
from flightllm.errors import EngineError, EngineUnavailableError
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Completion, Engine, PrefixCache, Request


@dataclass(frozen=True, slots=True)
class ObservedEngine:
    """A wrapper of an engine that records its answers, speed and health, and otherwise does the same."""

    engine: Engine
    learned: Learned
    costs: Costs
    health: Health = field(default_factory=Health)
    in_own_words: Callable[[EngineError], str] = str
    """Rewrites an error of the engine in the words of the statement or file that configures the engine."""

    @property
    def name(self) -> str:
        """Return the engine's name."""
        return self.engine.name

    @property
    def revision(self) -> str:
        """Return the engine's revision."""
        return self.engine.revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the engine's prefix cache."""
        return self.engine.prefix_cache

    def count_tokens(self, text: str) -> int:
        """Count tokens as the engine does."""
        return self.engine.count_tokens(text)

    def close(self) -> None:
        """Do nothing: the engine belongs to the server."""

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield the engine's completions and record them; see `Engine.generate`.

        Only the time spent waiting for a completion counts, not the time in which the caller uses it.
        """
        asked: dict[int, Asked] = {}
        work, seconds = Work(), 0.0
        waited = time.monotonic()
        try:
            for completion in self.engine.generate(_noted(requests, asked), cancelled):
                seconds += time.monotonic() - waited
                tokens = completion.prompt_tokens, completion.cached_tokens, completion.completion_tokens
                work += Work(1, *tokens)
                self.learned.observe(asked.pop(completion.id), completion)
                self.health.answered()
                yield completion
                waited = time.monotonic()
        except EngineError as error:
            if isinstance(error, EngineUnavailableError):
                self.health.failed()
            error.args = (self.in_own_words(error),)
            raise
        finally:
            self.costs.observe(work, seconds)


def _noted(requests: Iterator[Request | None], asked: dict[int, Asked]) -> Iterator[Request | None]:
    for request in requests:
        if request is not None:
            asked[request.id] = asked_by(request)
        yield request
