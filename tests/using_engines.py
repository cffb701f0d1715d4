"""Engines that behave in ways the fake one does not, and databases that use them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from flightllm.engines.fake.engine import FakeEngine, FakeOptions
from flightllm.engines.registry import Engines
from flightllm.llm.engine import Completion, Engine, Request
from flightllm.session.database import Database


@dataclass
class Scripted(FakeEngine):
    """Answers each request by `answer`; the first one that it gets only once no other is left where `late` is set."""

    answer: Callable[[Request], str]
    late: bool = False
    asked: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Be a fake engine otherwise."""
        super().__init__("demo", 128, FakeOptions())

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer as scripted."""
        del cancelled
        first = next(requests, None) if self.late else None
        for request in requests:
            if request is None:
                if first is not None:
                    self.asked.append(first)
                    yield Completion(first.id, self.answer(first))
                    first = None
                continue
            self.asked.append(request)
            yield Completion(request.id, self.answer(request))
        if first is not None:
            self.asked.append(first)
            yield Completion(first.id, self.answer(first))


def using(database: Database, engine: Engine) -> Database:
    """Return the same database on another engine."""
    services = database._services
    engines = Engines(services.config.engine, services.objects.engine, create=lambda _: engine)
    return Database(replace(services, engines=engines), database.queries)
