"""The language models of a server: its own, and those that SQL made, each opened when it is first asked."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import structlog

from flightllm.config import EngineConfig
from flightllm.errors import EngineError, EngineUnavailableError, FlightLLMError
from flightllm.llm import create_engine
from flightllm.llm.base import Engine
from flightllm.llm.health import Health
from flightllm.llm.learned import Learned
from flightllm.plan.cost import Costs, Prices

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Served:
    """A model that answers, and what its answers so far tell of it."""

    name: str | None
    """What SQL calls it; None is the server's own."""
    config: EngineConfig
    engine: Engine
    costs: Costs
    learned: Learned = field(default_factory=Learned)
    health: Health = field(default_factory=Health)

    @property
    def window(self) -> int:
        """Return how many prompts its engine keeps in flight."""
        return self.config.max_in_flight


@dataclass(slots=True, eq=False)
class _Slot:
    """A model as it was described at one time; `lock` is held while its engine opens and closes."""

    config: EngineConfig
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    served: Served | None = None
    error: str | None = None

    def close(self) -> None:
        """Close the engine; waits for it to open."""
        with self.lock:
            if self.served is not None:
                self.served.engine.close()


class Engines:
    """Engines by model name. Safe to use from several threads.

    A model that is described anew, or dropped, goes on answering those who use it, and is closed after the last. One
    that opens holds up only those who need it.
    """

    def __init__(
        self,
        own: EngineConfig,
        created: Callable[[str], EngineConfig | None],
        create: Callable[[EngineConfig], Engine] = create_engine,
    ) -> None:
        """Open nothing yet. `created` tells how SQL describes a model now, None where there is none of this name."""
        self.own_config = own
        self._created = created
        self._create = create
        self._lock = threading.Lock()
        """Guards the following, and the users of each slot."""
        self._slots: dict[str | None, _Slot] = {}
        self._closed = False
        if created(own.model) is not None:
            _log.warning("a created model has the name of the configured one and goes by it", model=own.model)

    @property
    def own(self) -> Served:
        """Return the server's own model, which is opened when the server starts and stays open.

        Raises:
            ConfigError: its configuration is wrong.
            MissingExtraError: its packages are not installed.
            EngineUnavailableError: it did not start.
        """
        with self.using([None]) as models:
            return models[None]

    @contextmanager
    def using(self, names: Iterable[str | None]) -> Iterator[Mapping[str | None, Served]]:
        """Give some models by name, opened, and as they are now until the end of the block.

        Raises:
            EngineError: there is no such model any more, it cannot be opened, or the server stops.
        """
        with ExitStack() as held:
            yield {name: held.enter_context(self._used(name)) for name in names}

    def settle(self, name: str) -> None:
        """Close the engine of a model that was dropped or described anew, at once or after its last user."""
        with self._lock:
            slot = self._slots.get(name)
            gone = slot is not None and not self._is_wanted(name, slot)
        if slot is not None and gone:
            slot.close()

    def price(self, name: str | None, counts: Mapping[str, int]) -> float | None:
        """Return what counted calls of a model cost, None where it has no prices or is gone."""
        config = self._described(name)
        return None if config is None else Costs(Prices.of(config)).counted(counts)

    def state(self, name: str | None) -> tuple[bool, str | None]:
        """Tell whether a model is open, and why the last attempt to open it failed."""
        with self._lock:
            slot = self._slots.get(name)
            return (False, None) if slot is None else (slot.served is not None, slot.error)

    def close(self) -> None:
        """Close all engines, in use or not. Idempotent."""
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
        for slot in slots:
            slot.close()

    @contextmanager
    def _used(self, name: str | None) -> Iterator[Served]:
        slot = self._taken(name)
        try:
            yield self._opened(name, slot)
        finally:
            with self._lock:
                slot.users -= 1
                gone = not self._is_wanted(name, slot)
            if gone:
                slot.close()

    def _taken(self, name: str | None) -> _Slot:
        with self._lock:
            if self._closed:
                raise EngineUnavailableError("the server stops")
            config = self._described(name)
            if config is None:
                raise EngineError(f"the model {name!r} was dropped: create it again, or take another one")
            slot, before = self._slots.get(name), None
            if slot is None or slot.config is not config:
                before, slot = slot, _Slot(config)
                self._slots[name] = slot
            slot.users += 1
            gone = before is not None and not before.users
        if before is not None and gone:
            before.close()
        return slot

    def _is_wanted(self, name: str | None, slot: _Slot) -> bool:
        """Tell whether a slot stays open, and forget one that is out of date. The caller holds the lock."""
        current = self._slots.get(name) is slot
        if current and self._described(name) is not slot.config:
            del self._slots[name]
            current = False
        return current or slot.users > 0

    def _described(self, name: str | None) -> EngineConfig | None:
        return self.own_config if name is None else self._created(name)

    def _opened(self, name: str | None, slot: _Slot) -> Served:
        with slot.lock:
            if self._closed:
                raise EngineUnavailableError("the server stops")
            if slot.served is not None:
                return slot.served
            slot.error = None
            try:
                engine = self._create(slot.config)
            except Exception as error:
                slot.error = without_section(error) if isinstance(error, FlightLLMError) else type(error).__name__
                if name is None:
                    raise
                raise _unusable(name, error) from error
            slot.served = Served(name, slot.config, engine, Costs(Prices.of(slot.config)))
            return slot.served


def without_section(error: Exception) -> str:
    """Return what is wrong with an engine's options in the words of CREATE MODEL, which has no sections."""
    return str(error).replace("[engine] ", "").replace("of every engine: kind,", "of every engine: engine,")


def _unusable(name: str, error: Exception) -> EngineError:
    if isinstance(error, FlightLLMError):
        kind = EngineUnavailableError if isinstance(error, EngineUnavailableError) else EngineError
        return kind(f"the model {name!r} cannot be used: {without_section(error)}")
    _log.error("model not opened", model=name, exc_info=error)  # loading fails in many ways: memory, a damaged file
    return EngineUnavailableError(f"the model {name!r} did not start: {type(error).__name__}; see the server's log")
