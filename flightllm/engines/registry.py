"""The language models of a server: the configured one, and those of CREATE MODEL, each opened on first use."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import structlog

from flightllm.common.cached import cached_property
from flightllm.config import EngineConfig, ModelsConfig
from flightllm.engines import create_engine
from flightllm.engines.extras import extras_of
from flightllm.engines.observed import Health, LearnedByUser
from flightllm.engines.prices import prices_of
from flightllm.engines.prompt_format import format_of
from flightllm.engines.sql_secrets import restricted
from flightllm.errors import CancelledError, EngineError, EngineUnavailableError, FlightLLMError
from flightllm.llm.cost import Costs, Prices
from flightllm.llm.engine import Engine
from flightllm.llm.prompt_formats import PromptFormat

_log = structlog.get_logger(__name__)
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class OpenModel:
    """An open model, with the statistics of its answers so far."""

    name: str | None
    """The model's name in SQL; None for the server's own model."""
    config: EngineConfig
    engine: Engine
    costs: Costs
    prompt_format: PromptFormat
    learned: LearnedByUser = field(default_factory=LearnedByUser)
    health: Health = field(default_factory=Health)

    @property
    def window(self) -> int:
        """Return how many prompts the engine, or each of its replicas, keeps in flight."""
        return self.config.max_in_flight

    def gives_probabilities(self, user: str) -> bool:
        """Return False where the model returns no probabilities, by its documentation or the latest answers to a user.

        This does not wait for any engine.
        """
        return extras_of(self.engine).gives_probabilities and self.learned.of(user).has_probabilities()

    @property
    def replicas(self) -> int:
        """Return how many replicas the engine has; this does not wait for any engine."""
        return extras_of(self.engine).replicas


@dataclass(eq=False)
class _Slot:
    """A model under one version of its configuration."""

    config: EngineConfig
    users: int = 0
    opening: Future[OpenModel] | None = None
    """Done once the engine is open; None before the first use, and after a failed attempt."""
    error: str | None = None

    @cached_property
    def prices(self) -> Prices | None:
        """Return the model's prices, or None."""
        return prices_of(self.config)

    def close(self) -> None:
        """Close the engine; if it is still opening, close it as soon as it is open."""
        if self.opening is not None:
            self.opening.add_done_callback(_close)


class Engines:
    """The engines by model name. Thread-safe.

    The engine of a changed or dropped model continues to answer its present users, and closes after the last one. An
    engine that opens, which can take minutes, delays only the queries that need it.
    """

    def __init__(
        self,
        own: EngineConfig,
        created: Callable[[str], EngineConfig | None],
        create: Callable[[EngineConfig], Engine] = create_engine,
        models: ModelsConfig | None = None,
    ) -> None:
        """Open no engine yet.

        `created` returns the present configuration of a model of CREATE MODEL, or None. `models` lists the secrets that
        these models can use.
        """
        self.own_config = own
        self._created = created
        self._create = create
        self._models = models or ModelsConfig()
        self._lock = threading.Lock()
        """Guards the fields below, and the slots."""
        self._slots: dict[str | None, _Slot] = {}
        self._closed = False
        if created(own.model) is not None:
            _log.warning("a created model hides the configured model of the same name", model=own.model)

    @property
    def own(self) -> OpenModel:
        """Return the server's own model, which is opened when the server starts and stays open.

        Raises:
            ConfigError: the model's configuration is wrong.
            MissingExtraError: the engine's packages are not installed.
            EngineUnavailableError: the engine did not start.
        """
        with self.using([None]) as models:
            return models[None]

    @property
    def own_name(self) -> str:
        """Return the name of the server's own model; this does not open the model."""
        engine = self.opened().get(None)
        return f"{self.own_config.kind} ({self.own_config.model})" if engine is None else engine.name

    @contextmanager
    def using(
        self, names: Iterable[str | None], cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[Mapping[str | None, OpenModel]]:
        """Yield some open models by name; they keep their present configuration until the end of the block.

        Raises:
            EngineError: a model was dropped or cannot be opened, or the server stops.
            CancelledError: `cancelled()` returned True while an engine opened; the opening continues.
        """
        with ExitStack() as held:
            yield {name: held.enter_context(self._used(name, cancelled)) for name in names}

    def settle(self, name: str) -> None:
        """Close the engine of a dropped or changed model, at once or after its last user."""
        with self._lock:
            slot = self._slots.get(name)
            gone = slot is not None and not self._is_wanted(name, slot)
        if slot is not None and gone:
            slot.close()

    def price(self, name: str | None, counts: Mapping[str, int]) -> float | None:
        """Return the price of counted calls of a model; None if the model has no prices or was dropped."""
        config, slot = self._described(name), self._slots.get(name)  # no lock: garbage collection can end a query here
        if config is None:
            return None
        prices = slot.prices if slot is not None and slot.config is config else prices_of(config)
        return Costs(prices).counted(counts)

    def state(self, name: str | None) -> tuple[bool, str | None]:
        """Return whether a model is open, and why the last attempt to open it failed, or None."""
        with self._lock:
            slot = self._slots.get(name)
            if slot is None or slot.opening is None:
                return False, None if slot is None else slot.error
            return slot.opening.done(), None

    def kinds(self) -> set[str]:
        """Return the kinds of the engines that are open or being opened."""
        with self._lock:
            return {slot.config.kind for slot in self._slots.values() if slot.opening is not None}

    def opened(self) -> dict[str | None, Engine]:
        """Return the open engines, by the names of their models."""
        with self._lock:
            opening = {name: slot.opening for name, slot in self._slots.items()}
        done = {name: one for name, one in opening.items() if one is not None and one.done()}
        return {name: one.result().engine for name, one in done.items() if one.exception() is None}

    def close(self) -> None:
        """Close all engines, in use or not. Idempotent."""
        with self._lock:
            self._closed = True
            slots = list(self._slots.values())
        for slot in slots:
            slot.close()

    @contextmanager
    def _used(self, name: str | None, cancelled: Callable[[], bool]) -> Iterator[OpenModel]:
        slot = self._taken(name)
        try:
            yield self._opened(name, slot, cancelled)
        finally:
            with self._lock:
                slot.users -= 1
                gone = not self._is_wanted(name, slot)
            if gone:
                slot.close()

    def _taken(self, name: str | None) -> _Slot:
        with self._lock:
            if self._closed:
                raise EngineUnavailableError("the server is stopping")
            config = self._described(name)
            if config is None:
                raise EngineError(f"the model {name!r} was dropped: create it again, or use another model")
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
        """Return whether a slot stays open; remove a slot with an old configuration. The caller holds the lock."""
        current = self._slots.get(name) is slot
        if current and self._described(name) is not slot.config:
            del self._slots[name]
            current = False
        return current or slot.users > 0

    def _described(self, name: str | None) -> EngineConfig | None:
        return self.own_config if name is None else self._created(name)

    def _opened(self, name: str | None, slot: _Slot, cancelled: Callable[[], bool]) -> OpenModel:
        with self._lock:
            begins = slot.opening is None
            opening = slot.opening = slot.opening or Future()
        if begins and name is None:
            self._open(name, slot, opening)
        elif begins:
            threading.Thread(target=self._open, args=(name, slot, opening), name="open model", daemon=True).start()
        while not wait([opening], _POLL_SECONDS).done:
            if cancelled():
                raise CancelledError(f"the query was cancelled while the model {name!r} was opening")
        error = opening.exception()
        if error is not None:
            raise error if name is None else _unusable(name, error) from error
        return opening.result()

    def _open(self, name: str | None, slot: _Slot, opening: Future[OpenModel]) -> None:
        """Open an engine; after a failure, the next query that needs it tries again."""
        try:
            format_ = format_of(slot.config)
            own = name is None
            engine = self._create(slot.config if own else restricted(slot.config, self._models))
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting threads
            with self._lock:
                slot.opening, slot.error = None, _reason(error)
            opening.set_exception(error)
            if name is not None and not isinstance(error, FlightLLMError):
                _log.error("model not opened", model=name, exc_info=error)
        else:
            opening.set_result(OpenModel(name, slot.config, engine, Costs(slot.prices), format_))


def _close(opened: Future[OpenModel]) -> None:
    if opened.exception() is None:
        opened.result().engine.close()


def _reason(error: BaseException) -> str:
    """Return the reason that clients can see: an unexpected error is hidden, because its text can contain paths."""
    if isinstance(error, FlightLLMError):
        return without_section(error)
    return f"{type(error).__name__}; see the server's log"


def _unusable(name: str, error: BaseException) -> EngineError:
    if isinstance(error, FlightLLMError) and not isinstance(error, EngineUnavailableError):
        return EngineError(f"the model {name!r} cannot be used: {_reason(error)}")
    return EngineUnavailableError(f"the model {name!r} did not start: {_reason(error)}")


def without_section(error: FlightLLMError) -> str:
    """Return an error about an engine's options in the terms of CREATE MODEL, which has no sections."""
    text = str(error).replace("the line to change is [engine] ", "the option to change is ")
    return text.replace("[engine] ", "").replace("of every engine: kind,", "of every engine: engine,")


def check_endpoint(engine: Engine) -> None:
    """Check that an engine with an endpoint can answer; log a warning for a temporary problem.

    Raises:
        EngineError: there is no host or no quota, or the key, model or path is wrong; the message says what to change.
    """
    found, warning = extras_of(engine).check()
    if warning:
        _log.warning("endpoint does not answer well", engine=engine.name, found=found, warning=warning)
