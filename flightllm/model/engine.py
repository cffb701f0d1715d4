"""What every inference engine offers: requests in, completions out, in any order, within a bounded window."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Choice:
    """Constrain the answer to exactly one of `options`."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """Constrain the answer to JSON text valid under `schema` (canonical JSON Schema text)."""

    schema: str


@dataclass(frozen=True, slots=True)
class Regex:
    """Constrain the answer to text that matches `pattern` in full."""

    pattern: str


Constraint = Choice | JsonSchema | Regex | None


@dataclass(frozen=True, slots=True)
class Parameters:
    """Sampling parameters of one call site; equal for all of its requests.

    `reasoning` says how long the model can think before it answers: `off`, `low`, `medium` or `high`; None leaves that
    to the engine. With `probability` an engine that can tells how probable the chosen option was.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    constraint: Constraint = None
    top_p: float = 1.0
    seed: int | None = None
    reasoning: str | None = None
    probability: bool = False

    def __repr__(self) -> str:
        """Return a text of all that decides an answer.

        Parameters that came later are left out at their defaults. So answers that earlier versions kept stay valid.
        """
        later = {"top_p": 1.0, "seed": None, "reasoning": None, "probability": False}
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = (f"{name}={value!r}" for name, value in values.items() if name not in later or value != later[name])
        return f"Parameters({', '.join(shown)})"


@dataclass(slots=True)
class Dispatch:
    """Whether a request that was pulled is only held ready, and has cost nothing yet; engines that do so say it."""

    waits: bool = False


@dataclass(frozen=True, slots=True)
class Reuse:
    """Where a prompt comes from, and how much of it prompts that are still to come have too.

    `site` is its call site, see `call_site`. `query` is a text unique to the pass of a query that sends it; the pass's
    prompts are sent in the order of `number`. Those that follow have its first `ahead` characters too; None: unknown.
    """

    site: str
    query: str
    number: int
    ahead: int | None


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to answer.

    `prompt` is what the model is told. `function`, `instruction` and `fields` (name, value pairs in prompt order) say
    how it was made; only the `fake` engine and logs at debug level look at them.
    """

    id: int
    prompt: str
    parameters: Parameters
    function: str
    instruction: str
    fields: tuple[tuple[str, str], ...]
    tenant: str = ""
    """Prompts of different tenants share no prefix in the engine's cache, where the engine can keep them apart."""
    priority: int = 0
    """Lower ones go first, where the engine knows priorities."""
    dispatch: Dispatch = field(default_factory=Dispatch, compare=False, repr=False)
    recurs: int = field(default=0, compare=False)
    """How many characters at the prompt's start the prompts around it have too; engines may keep what they compute."""
    reuse: Reuse | None = field(default=None, compare=False)
    """What is known of the prompts that follow; engines may keep what these need."""
    max_tokens: int | None = None
    """Bound on the tokens of its answer, where that is not the call site's."""

    @property
    def limit(self) -> int:
        """Return how many tokens the answer can have; what a model thinks before has a room of its own."""
        return self.parameters.max_tokens if self.max_tokens is None else self.max_tokens


@dataclass(frozen=True, slots=True)
class Completion:
    """The outcome of one request: `text`, or `error` when this request alone failed.

    `cached_tokens` of the `prompt_tokens` were served from a prefix cache. `reasoning_tokens` of the
    `completion_tokens` were spent on thinking, of which `text` has nothing. `confidence` is the probability of the
    chosen option for a `Choice`, where the engine knows it. `finish_reason` says why the model stopped: `stop`,
    `length` where it reached `max_tokens`, `content_filter`, or the engine's own word. `refusal` is what the model said
    when it refused to answer; `error` then quotes it.
    """

    id: int
    text: str | None
    error: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    confidence: float | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning_tokens: int = 0

    @property
    def partial(self) -> bool:
        """Tell whether the text ends where `max_tokens` was reached. Such a text is never kept."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """The engine's prefix cache: how long the blocks are that prompts share, and how many it keeps (None: unknown)."""

    block_tokens: int
    blocks: int | None
    at_once: bool = True
    """Prompts that run at the same time share what one of them computes."""


@dataclass(frozen=True, slots=True)
class KvEventsAddress:
    """Where an engine tells what its prefix cache takes up and lets go, in the words of vLLM's events over ZeroMQ."""

    endpoint: str
    """To subscribe at, as `tcp://host:5557` or `ipc:///a/path`."""
    replay: str = ""
    """Where what was missed can be asked for; empty: nowhere."""
    topic: str = ""


def cache_salt(tenant: str) -> str:
    """Return the salt that keeps a tenant's prefixes apart in an engine's cache; none for no tenant."""
    return blake2b(tenant.encode(), digest_size=16).hexdigest() if tenant else ""


def call_site(function: str, instruction: str) -> str:
    """Return a name for the calls of a function with an instruction, which cannot be read from it."""
    return blake2b(f"{function}\0{instruction}".encode(), digest_size=8).hexdigest()


class Engine(Protocol):
    """An inference engine. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Return the engine kind and model for messages and EXPLAIN, e.g. `local (demo)`."""

    @property
    def revision(self) -> str:
        """Return a text that changes whenever the same prompt could be answered differently (model and weights)."""

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return what prompts can share, or None where the engine computes each prompt by itself."""

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield one completion per request, in any order.

        Pulls `requests` lazily, in order, in the calling thread, keeping at most the configured window in flight. None
        among them says that there is nothing to ask just now: the engine pulls again after its next completion, or
        within 50 ms.
        Closing the returned iterator, or `cancelled()` turning true (polled at least every 100 ms), aborts what is in
        flight.

        Raises:
            EngineUnavailableError: the engine is gone; completions already yielded stand.
            CancelledError: `cancelled()` turned true.
        """

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` under the model's tokenizer, without special tokens."""

    def close(self) -> None:
        """Release the model. Idempotent."""
