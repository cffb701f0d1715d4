"""The protocol of inference engines: requests in, completions out, in any order, within a bounded window.

Requests come from a lazy iterator that can pause; an engine takes the available ones by `pull`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from hashlib import blake2b
from itertools import islice
from time import monotonic
from typing import Protocol

from flightllm.errors import check_cancelled

_LEAST_SHARE = 0.01
"""With a smaller share of hits, the order of prompts does not matter."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A constraint: the answer is exactly one of `options`."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """A constraint: the answer is JSON text valid under `schema` (canonical JSON Schema text)."""

    schema: str


@dataclass(frozen=True, slots=True)
class Regex:
    """A constraint: the whole answer matches `pattern`."""

    pattern: str


Constraint = Choice | JsonSchema | Regex | None


@dataclass(frozen=True, slots=True)
class Parameters:
    """Sampling parameters of one call site; equal for all of its requests.

    `reasoning` says how long the model can think before it answers: `off`, `low`, `medium` or `high`. None leaves this
    to the engine. With `probability`, engines that can do so return how probable each option was.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    constraint: Constraint = None
    top_p: float = 1.0
    seed: int | None = None
    reasoning: str | None = None
    probability: bool = False

    def __repr__(self) -> str:
        """Return a text of all parameters that affect an answer.

        Parameters of later versions are left out at their defaults. So answers that earlier versions stored stay valid.
        """
        later = {"top_p": 1.0, "seed": None, "reasoning": None, "probability": False}
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = (f"{name}={value!r}" for name, value in values.items() if name not in later or value != later[name])
        return f"Parameters({', '.join(shown)})"


@dataclass(slots=True)
class Dispatch:
    """Whether a pulled request still waits in the engine and has cost nothing yet; and what each further try counts.

    Engines that hold requests ready set `waits`. Engines with an endpoint call `admit` before each try, and set `sent`
    when the prompt leaves. They set `billed` while the last try can cost something: from the time when it leaves, until
    the endpoint rejects it.
    """

    waits: bool = False
    sent: bool = False
    billed: bool = False
    admit: Callable[[int], str | None] = lambda _: None
    """Reserves the coming try, with the most tokens of its answer, and counts it if the prompt was sent before.

    Returns why the prompt must not be sent, or None. Any thread can call it."""
    retract: Callable[[], None] = lambda: None
    """Takes back what the last `admit` reserved and counted, because the try does not leave."""
    _made: float = field(default_factory=monotonic)

    def age(self) -> float:
        """Return the seconds since the request was made, just before an engine pulled the request."""
        return monotonic() - self._made


@dataclass(slots=True, unsafe_hash=True)
class Reuse:
    """The origin of a prompt, and how much of the prompt later prompts share. Do not change it.

    `site` is the call site of the prompt, see `call_site`. `query` is a text unique to one pass of a query. The pass
    sends its prompts in the order of `number`. Later prompts begin with the same first `ahead` characters; None where
    this is unknown.
    """

    site: str
    query: str
    number: int
    ahead: int | None


@dataclass(frozen=True, slots=True)
class PackItem:
    """One question of a pack: its code, and the facts about the call that `Request` has for a single prompt."""

    code: str
    function: str
    instruction: str
    parameters: Parameters
    fields: tuple[tuple[str, str], ...]


@dataclass(slots=True, unsafe_hash=True)
class Request:
    """One prompt to answer.

    `prompt` is the text for the model. It was made from `function`, `instruction` and `fields` (name, value pairs in
    prompt order). Only the `fake` engine and logs at debug level read these three.
    Do not change a request. The class is not frozen, because frozen objects take several times as long to create.
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
    """Engines that know priorities start requests of a lower number first."""
    dispatch: Dispatch = field(default_factory=Dispatch, compare=False, repr=False)
    recurs: int = field(default=0, compare=False)
    """How many characters at its start the prompt shares with its neighbours; engines can cache this part."""
    reuse: Reuse | None = field(default=None, compare=False)
    """The known reuse by later prompts; engines can keep the shared part in their caches."""
    user: str = ""
    """The user whose query this is: users share an engine in equal parts."""
    max_tokens: int | None = None
    """Bound on the tokens of the answer, where it differs from the bound of the call site."""
    ends: tuple[int, ...] = field(default=(), compare=False)
    """Where the parts of the prompt end, in characters: the instruction, and each field; empty where unknown."""
    shared: int = field(default=0, compare=False)
    """The longest of these starts that enough prompts of the pass share to pay for storing it."""
    waits: bool = field(default=True, compare=False)
    """Whether the prompt can wait for another one with the same start, because that costs less."""
    pack: tuple[PackItem, ...] = ()
    """The questions of a pack, which one prompt asks together; empty for a single question. See `packs.py`."""

    @property
    def limit(self) -> int:
        """Return how many tokens the answer can have; the thought before it has a separate limit."""
        return self.parameters.max_tokens if self.max_tokens is None else self.max_tokens


@dataclass(slots=True, unsafe_hash=True)
class Completion:
    """The outcome of one request: `text`, or `error` where only this request failed.

    A prefix cache served `cached_tokens` of the `prompt_tokens`, and stored `written_tokens` for a fee. The model spent
    `reasoning_tokens` of the `completion_tokens` on thinking; `text` does not include the thought. `probabilities`
    are those of the options of a `Choice`, in their order, where the engine knows them. `finish_reason` says why the
    model stopped: `stop`, `length` where the text reached `max_tokens`, `content_filter`, or the engine's own word.
    `refusal` is the model's text when it refused to answer; `error` then quotes this text. `estimated` says that the
    engine did not report all tokens, or reported wrong ones: the numbers are then estimates, and
    `most_completion_tokens` is an upper bound. `too_long` says that the model's context has no room for the prompt with
    its answer: a shorter prompt can succeed. Do not change a completion; like `Request`, it is not frozen.
    """

    id: int
    text: str | None
    error: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    probabilities: tuple[float, ...] | None = None
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoning_tokens: int = 0
    estimated: bool = False
    most_completion_tokens: int = 0
    written_tokens: int = 0
    too_long: bool = False

    @property
    def partial(self) -> bool:
        """Return whether the text was cut off at `max_tokens`. Such a text is never stored."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class PrefixCache:
    """The engine's prefix cache: tokens per block, and the number of blocks that it holds (None: unknown)."""

    block_tokens: int
    blocks: int | None
    at_once: bool = True
    """Whether prompts that run at the same time share a prefix that one of them computes."""
    floor_tokens: int = 0
    """The fewest tokens that the cache serves: a shorter common prefix saves nothing."""
    share: float = 1.0
    """The share of the possible hits that the engine has lately reported."""
    whole: bool = False
    """Whether the cache serves only prompts that it knows as a whole."""
    fee_from: int | None = None
    """The engine charges for storing prompts that have at least this many tokens; None if it never charges."""
    lead_characters: int = 0
    """Of prompts that share so many characters, the engine sends one ahead of the others; 0 if it sends all at once."""
    breakpoints: bool = False
    """Whether the cache keeps only the starts that a request marks, and whether the engine marks them."""
    units: bool = False
    """Whether a start is served only from the third prompt with it on."""
    most_marks: int = 4
    """The most starts that one request can mark."""
    pays_from: int = 2
    """From how many prompts on with a common start it is cheaper to store the start."""
    read: float = 0.0
    """The price of a token that the cache serves, as a part of the price of input."""
    write: float = 1.0
    """The price of a token that is stored, as a multiple of the price of input."""
    seconds: float = 0.0
    """How long a start is kept after its last use; 0 if this is unknown."""

    @property
    def hosted(self) -> bool:
        """Return whether a provider charges by the rules of its cache."""
        return self.floor_tokens > 0

    @property
    def earns(self) -> bool:
        """Return whether prompts with a common prefix can be hits."""
        return not self.whole and self.share >= _LEAST_SHARE


@dataclass(frozen=True, slots=True)
class KvEventsAddress:
    """Where an engine publishes which blocks its prefix cache stores and evicts, as vLLM's KV events over ZeroMQ."""

    endpoint: str
    """The address to subscribe to, as `tcp://host:5557` or `ipc:///a/path`."""
    replay: str = ""
    """The address that sends missed events again; empty if the engine offers no replay."""
    topic: str = ""


def cache_salt(tenant: str) -> str:
    """Return the salt that keeps a tenant's prefixes apart in an engine's cache; empty without a tenant."""
    return blake2b(tenant.encode(), digest_size=16).hexdigest() if tenant else ""


def call_site(function: str, instruction: str) -> str:
    """Return a name for the calls of a function with an instruction; the name does not reveal the instruction."""
    return blake2b(f"{function}\0{instruction}".encode(), digest_size=8).hexdigest()


class Engine(Protocol):
    """An inference engine. Safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """Return the engine's kind and model for messages and EXPLAIN, such as `local (demo)`."""

    @property
    def revision(self) -> str:
        """Return a text that changes whenever the same prompt could get another answer (model and weights)."""

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the prefix cache that prompts share, or None if the engine computes each prompt by itself."""

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield one completion per request, in any order.

        The engine pulls `requests` lazily, in order, in the calling thread. It keeps at most the configured window in
        flight. A None among the requests means that there is no request at the moment: the engine pulls again after its
        next completion, or within 50 ms.
        Closing the returned iterator aborts the requests in flight. So does `cancelled()` when it returns True; the
        engine polls it at least every 100 ms.

        Raises:
            EngineUnavailableError: the engine is gone; completions already yielded stay valid.
            CancelledError: `cancelled()` returned True.
        """

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` under the model's tokenizer, without special tokens."""

    def close(self) -> None:
        """Release the model. Idempotent."""


class PatientEngine:
    """The base of an engine that itself waits for an endpoint that is down; its error means that the wait is over."""

    patience: float
    """For how many seconds nothing must succeed before the endpoint counts as down."""


class More(Enum):
    """The state of an iterator after a pull: more requests are ready, it pauses, or it has ended."""

    READY = "ready"
    PAUSED = "paused"
    ENDED = "ended"


def pull(requests: Iterator[Request | None], most: int, cancelled: Callable[[], bool]) -> tuple[list[Request], More]:
    """Return up to `most` requests, and the iterator's state; fewer requests if the iterator pauses or ends.

    Raises:
        CancelledError: `cancelled()` returned True.
    """
    pulled: list[Request] = []
    for request in islice(requests, most):
        check_cancelled(cancelled)
        if request is None:
            return pulled, More.PAUSED
        pulled.append(request)
    return pulled, More.READY if len(pulled) == most else More.ENDED
