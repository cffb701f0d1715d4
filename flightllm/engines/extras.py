"""The questions that an engine can answer beyond `Engine`, with defaults for engines that answer fewer of them.

Ask `extras_of(engine)`, never an attribute by its name. A wrapper forwards all members; see `ForwardedExtras`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, TypeVar

from flightllm.engines.prompt_parts import PromptParts
from flightllm.llm.batch_endpoint import Batching
from flightllm.llm.engine import Completion, Constraint, Engine, KvEventsAddress, Parameters, Request
from flightllm.llm.thinking import most_thought

if TYPE_CHECKING:
    from flightllm.engines.prefix_memory import PrefixMemory

T = TypeVar("T")


class EngineExtras(Batching):
    """The optional members of an engine; the defaults are right for an engine that sends prompts as they are."""

    # Prompts and tokens

    def sent_text(self, request: Request) -> str:
        """Return the text of a prompt with all that the engine adds to it, by the present knowledge."""
        return request.prompt

    def forecast_text(self) -> Callable[[Request], str] | None:
        """Return a function to the text that each of coming requests adds, in their order; None for `sent_text`."""
        return None

    def parts_of(self, request: Request, text: str | None = None) -> PromptParts:
        """Return a prompt as `sent_text` returns it, with the ends of its parts; `text` is that text if it is known."""
        return PromptParts(self.sent_text(request) if text is None else text, request.ends, request.shared)

    def head_of(self, constraint: Constraint) -> str:
        """Return the text that the model reads before a prompt with this constraint, such as a schema."""
        del constraint
        return ""

    def known_tokens(self, text: str) -> int | None:
        """Return the tokens that the engine reported for a text like `sent_text`; None if this is unknown."""
        del text
        return None

    def tokens_per_estimate(self, request: Request) -> float:
        """Return how many tokens the engine counts for each estimated token of a prompt like this."""
        del request
        return 1.0

    def added_tokens(self, request: Request) -> int:
        """Return the estimated tokens of a prompt beyond `sent_text`, such as those of a chat template."""
        del request
        return 0

    def answer_tokens(self, text: str, constraint: Constraint) -> int | None:
        """Return the tokens of an answer with all that is written around it; None for the text and an end token."""
        del text, constraint
        return None

    @property
    def least_answer_tokens(self) -> int:
        """Return the fewest tokens that an answer can have."""
        return 1

    def most_thought(self, mode: str, max_tokens: int) -> int:
        """Return how many tokens a thought can have in a mode, before an answer of at most `max_tokens`."""
        return most_thought(mode, max_tokens)

    def further_tokens(self, constraint: Constraint) -> tuple[int, int]:
        """Return the most tokens that the engine adds to a prompt with this constraint, and to its answer."""
        del constraint
        return 0, 0

    @property
    def counts_exactly(self) -> bool:
        """Return whether `count_tokens` counts with the tokenizer of the endpoint's model."""
        return False

    @property
    def has_tokenizer(self) -> bool:
        """Return whether `token_ids` can be asked."""
        return False

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt as the model gets it; only with `has_tokenizer`."""
        raise NotImplementedError(f"{type(self).__name__} has no tokenizer for {len(prompts)} prompts")

    @property
    def context_tokens(self) -> int | None:
        """Return how many tokens a prompt can have together with its answer; None if this is unknown."""
        return None

    # Answers

    def refusal(self, parameters: Parameters) -> str | None:
        """Return why the engine cannot answer calls with these parameters, and what to write instead; or None."""
        del parameters
        return None

    @property
    def joins_questions(self) -> bool:
        """Return whether requests about the same values cost less as neighbours."""
        return False

    @property
    def gives_probabilities(self) -> bool:
        """Return whether answers can come with the probabilities of options, as far as is known."""
        return True

    def answer_share(self, asked: tuple[str, str, Parameters], test: Callable[[str], bool]) -> float | None:
        """Return the share of earlier answers to a question for which a test holds; None for too few of them."""
        del asked, test
        return None

    # The cache and its users

    @property
    def cached_texts(self) -> PrefixMemory | None:
        """Return the texts that a hosted provider's cache can hold now; None for other engines."""
        return None

    @property
    def kv_events(self) -> KvEventsAddress | None:
        """Return where the engine publishes its KV events; None if it publishes none."""
        return None

    @property
    def separates_tenants(self) -> bool:
        """Return whether the engine keeps the prefixes of tenants apart."""
        return False

    @property
    def callers(self) -> int:
        """Return how many calls of `generate` share the engine at present; 0 if it does not count them."""
        return 0

    @property
    def in_flight(self) -> int | None:
        """Return how many prompts the engine is answering; None if it does not count them."""
        return None

    @property
    def replicas(self) -> int:
        """Return how many replicas the engine has; this does not wait for any of them."""
        return 1

    # The state of the engine

    @property
    def alive(self) -> bool:
        """Return whether the engine can answer, as far as is known; this does not wait."""
        return True

    @property
    def reason(self) -> str | None:
        """Return why the engine is down; None or an empty text if this is unknown."""
        return None

    @property
    def reconnects(self) -> bool:
        """Return whether the engine stays usable when its endpoint dies, because later requests can succeed."""
        return False

    @property
    def down_seconds(self) -> float:
        """Return for how long the endpoint has not answered."""
        return 0.0

    @property
    def load_seconds(self) -> float:
        """Return for about how many seconds the first request waits for the model."""
        return 0.0

    @property
    def shared_revision(self) -> str | None:
        """Return the revision without the place of the engine; None if `revision` names no place."""
        return None

    def probe(self) -> None:
        """Check that the endpoint answers, if there is one.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached.
        """

    def check(self) -> tuple[str, str]:
        """Check that the endpoint answers well; return what was found and a warning, both empty without an endpoint.

        Raises:
            EngineError: the endpoint cannot answer; the message says what to change.
        """
        return "", ""

    def try_out(self) -> tuple[str, Completion] | None:
        """Ask the endpoint a short question; return a summary and the completion. Without an endpoint, return None.

        Raises:
            EngineError: the endpoint cannot answer; the message says what to change.
        """
        return None


_NONE = EngineExtras()


def extras_of(engine: Engine) -> EngineExtras:
    """Return the optional members of an engine, or the defaults for an engine that has no such members."""
    return engine if isinstance(engine, EngineExtras) else _NONE


class ForwardedExtras(EngineExtras):
    """The base of a wrapper whose optional members are those of another engine, all of them.

    A wrapper that answers a question differently overrides that member.
    """

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        """Ask the optional members of the other engine."""
        raise NotImplementedError


def _forwarded(name: str, member: object) -> object:
    """Return the member of a wrapper that asks the other engine for the member of this name."""
    if isinstance(member, property):
        return property(lambda self: self._forward(attrgetter(name)), doc=member.__doc__)

    def ask(self: ForwardedExtras, *given: Any, **named: Any) -> Any:
        return self._forward(methodcaller(name, *given, **named))

    return ask


for _class in (Batching, EngineExtras):
    for _name, _member in vars(_class).items():
        if not _name.startswith("_"):
            setattr(ForwardedExtras, _name, _forwarded(_name, _member))
