"""Predict an engine without requests: likely answers, and the tokens and cache hits that it would report.

A query that runs on the predicting engine counts the cost of its calls. Answers are drawn from earlier answers of the
same call site, if there are enough of them; otherwise all answers that the constraint allows are equally likely.
"""

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import count
from types import MappingProxyType
from typing import Protocol, TypeAlias, cast

from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.engines.hosted_prefix import HostedSimulator
from flightllm.engines.observed import Asked, Learned, asked_by, asked_in_pack
from flightllm.engines.prefix import PrefixSimulator, SimulatedRequest, chained
from flightllm.engines.prompt_parts import PromptParts
from flightllm.engines.random_answers import answerer, likelihoods
from flightllm.errors import CancelledError, check_cancelled
from flightllm.llm.engine import (
    Choice,
    Completion,
    Constraint,
    Engine,
    More,
    Parameters,
    PrefixCache,
    Request,
    pull,
)
from flightllm.llm.packs import pack_answer
from flightllm.llm.tokenizer import misfit

EXACT_PROMPTS = 4_096
"""How many prompts are tokenized; their mean characters per token give the token counts of the other prompts."""
_NONE = PrefixCache(16, None)
_PAUSE_SECONDS = 0.001
_SEEDS = 1 << 64
_PARTS_OF_LIMIT = 2
"""An answer of unknown length has at most half of its limit: users choose a limit that few answers reach."""


UsualTokens: TypeAlias = Callable[[Sequence[tuple[str, str]]], int]
"""Returns the usual tokens of an answer for the names and values in one prompt."""
_Tokens: TypeAlias = Callable[[str, Request], int]
"""Returns the tokens of an answer to a request."""


class Tokenizing(Protocol):
    """An engine whose tokenizer is available, so that it can return a prompt's tokens without a request."""

    @property
    def context_tokens(self) -> int:
        """Return how many tokens a prompt can have together with its answer."""

    def token_ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt as the model gets it, chat template and special tokens included."""


def tokenizing(engine: Engine) -> Tokenizing | None:
    """Return the engine itself if its tokenizer is available, otherwise None."""
    return cast("Tokenizing", engine) if extras_of(engine).has_tokenizer else None


class PromptTokens:
    """The token counts and blocks of prompts: exact for the first `exact` prompts, then estimated. One thread."""

    def __init__(self, engine: Engine, exact: int = EXACT_PROMPTS) -> None:
        self._engine = engine
        self._exact = exact
        self._size = (engine.prefix_cache or _NONE).block_tokens
        self._known: dict[str, tuple[int, Sequence[Hashable]]] = {}
        self._tokens = 0
        self._characters = 0

    def cut(self, prompts: Sequence[str]) -> list[tuple[int, Sequence[Hashable]]]:
        """Return the number of tokens and the block identities of each prompt.

        Prompts with a common prefix share the identities of the prefix's blocks.
        """
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._known]
        exact, other = new[: max(0, self._exact - len(self._known))], {}
        if exact:
            self._count(exact)
        for prompt in new[len(exact) :]:
            number = round(len(prompt) * self._tokens / max(1, self._characters))
            other[prompt] = number, self._by_characters(prompt)
        return [self._known.get(prompt) or other[prompt] for prompt in prompts]

    def _count(self, prompts: Sequence[str]) -> None:
        self._characters += sum(map(len, prompts))
        exact = tokenizing(self._engine)
        if exact is not None:
            for prompt, ids in zip(prompts, exact.token_ids(prompts), strict=True):
                self._tokens += len(ids)
                starts = range(0, len(ids) - self._size + 1, self._size)
                self._known[prompt] = len(ids), chained(tuple(ids[i : i + self._size]) for i in starts)
            return
        counts = [self._engine.count_tokens(prompt) for prompt in prompts]
        self._tokens += sum(counts)
        for prompt, number in zip(prompts, counts, strict=True):
            self._known[prompt] = number, self._by_characters(prompt)

    def _by_characters(self, prompt: str) -> list[Hashable]:
        wide = max(1, round(self._size * self._characters / max(1, self._tokens)))
        return chained(prompt[i : i + wide] for i in range(0, len(prompt) - wide + 1, wide))


@dataclass(slots=True)
class CallSiteForecast:
    """The requests of one call site: the count by order of fields, and whether the answers came from earlier ones."""

    orders: Counter[tuple[str, ...]] = field(default_factory=Counter)
    learned: bool = False


class EnoughError(CancelledError):
    """The end of a prediction that has reached its limit of prompts; its counts are a sample."""


class PredictingEngine(ForwardedExtras):
    """An engine that answers up to `most` prompts without a model, in the order of `engine`'s scheduler.

    It is for one query, and thread-safe. Several predictions can share `tokens`, one after the other. Over n
    predictions with the `turn` 0, 1/n, 2/n …, each prompt gets each answer about as often as the answer is likely.
    """

    def __init__(
        self,
        engine: Engine,
        learned: Learned,
        window: int,
        tokens: PromptTokens | None = None,
        most: int = sys.maxsize,
        turn: float = 0.0,
        usual: Mapping[tuple[str, str, Parameters], UsualTokens] = MappingProxyType({}),
    ) -> None:
        """`usual` tells how long free texts usually are, by function, instruction and parameters."""
        self._engine = engine
        self._learned = learned
        self._window = window
        self._tokens = tokens or PromptTokens(engine)
        self._usual = {(name, told, _unlimited(parameters)): one for (name, told, parameters), one in usual.items()}
        self._left = most
        self._turn = int(turn * _SEEDS)
        self._shape = engine.prefix_cache
        own = extras_of(engine)
        memory = own.cached_texts
        self._simulator: PrefixSimulator | HostedSimulator = PrefixSimulator(self._shape or _NONE, window)
        if memory is not None and self._shape is not None:
            self._simulator = HostedSimulator(self._shape, memory, window, engine.count_tokens)
        exact = tokenizing(engine)
        self._sends = own if exact is None else EngineExtras()
        self._sent_text = own.forecast_text() or self._sends.sent_text
        self._end = 1 if own.answer_tokens("", None) is None else 0
        self._least = own.least_answer_tokens
        self._probable = own.gives_probabilities and learned.has_probabilities()
        self._context = own.context_tokens or sys.maxsize
        self._lock = threading.Lock()
        """Guards all fields below: several operators of a query can ask at the same time."""
        self._numbers = count()
        self._flying: dict[int, tuple[Completion, deque[Completion]]] = {}
        """The completion of each run, and the queue that gets it, by the run's number."""
        self._answerers: dict[Asked, tuple[bytes, Callable[[int], str], _Tokens]] = {}
        self._option_lengths: dict[str, int] = {}
        self.sites: dict[Asked, CallSiteForecast] = {}

    @property
    def name(self) -> str:
        """Return the name of the predicted engine."""
        return self._engine.name

    @property
    def revision(self) -> str:
        """Return the revision of the predicted engine, so that cached answers are found."""
        return self._engine.revision

    @property
    def prefix_cache(self) -> PrefixCache | None:
        """Return the prefix cache of the predicted engine."""
        return self._shape

    def count_tokens(self, text: str) -> int:
        """Count the tokens of `text` with the predicted engine."""
        return self._engine.count_tokens(text)

    def parts_of(self, request: Request, text: str | None = None) -> PromptParts:
        """Return a prompt as the predicted engine sends it, with the ends of its parts."""
        return self._sends.parts_of(request, text)

    def tokens_per_estimate(self, request: Request) -> float:
        """Return how many tokens the predicted engine counts for each estimated token of a prompt like this."""
        return self._sends.tokens_per_estimate(request)

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return question(extras_of(self._engine))

    def answer_share(self, asked: tuple[str, str, Parameters], test: Callable[[str], bool]) -> float | None:
        """Return `Learned.share` of the answers from which those of the prediction are drawn."""
        return self._learned.share(asked, test)

    def guessed(self) -> int:
        """Return how many answers the engine has given so far."""
        with self._lock:
            return sum(site.orders.total() for site in self.sites.values())

    def close(self) -> None:
        """Do nothing: the owner of the predicted engine closes it."""

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Answer each request when the simulated engine has finished it; see `Engine.generate`.

        Raises:
            EnoughError: there are more requests than `most`.
            CancelledError: `cancelled()` returned True.
        """
        mine: deque[Completion] = deque()
        in_flight, more = 0, More.READY
        while more is not More.ENDED or in_flight:
            check_cancelled(cancelled)
            pulled: list[Request] = []
            if more is not More.ENDED:
                pulled, more = pull(requests, self._window - in_flight, cancelled)
            in_flight += len(pulled)
            with self._lock:
                self._send(pulled, mine)
                self._step()
            if not in_flight and more is not More.ENDED:
                time.sleep(_PAUSE_SECONDS)
            while mine:
                yield mine.popleft()
                in_flight -= 1

    def _send(self, requests: Sequence[Request], answers: deque[Completion]) -> None:
        """Give requests to the simulated engine; their completions go to `answers`. The caller holds the lock."""
        self._left -= len(requests)
        if self._left < 0:
            raise EnoughError("the prediction has reached its limit of prompts")
        texts = [self._sent_text(request) for request in requests]
        for request, sent, (count_, blocks) in zip(requests, texts, self._tokens.cut(texts), strict=True):
            text, length, probabilities = self._answer(request)
            estimated = max(
                1, round((count_ + self._sends.added_tokens(request)) * self._sends.tokens_per_estimate(request))
            )
            tokens = self._sends.known_tokens(sent) or estimated
            error = misfit(tokens, self._least_answer(request.parameters), self._context)
            if error is not None:
                answers.append(Completion(request.id, None, error, tokens, too_long=tokens > 0))
                continue
            run = SimulatedRequest(next(self._numbers), blocks, tokens, length, self._sends.parts_of(request, sent))
            self._flying[run.id] = Completion(request.id, text, None, tokens, 0, length, probabilities), answers
            self._simulator.add(run)

    def _step(self) -> None:
        """Run one step of the simulated engine. The caller holds the lock."""
        for run in self._simulator.step():
            completion, answers = self._flying.pop(run.id)
            if self._shape is not None:
                cached = run.cached_tokens
                if isinstance(self._simulator, PrefixSimulator):
                    cached = min(run.tokens - 1, round(cached * self._shape.share))
                completion = replace(completion, cached_tokens=cached, written_tokens=run.written_tokens)
            answers.append(completion)

    def _least_answer(self, parameters: Parameters) -> int:
        """Return the least number of tokens that an answer needs, by the rule of the engines."""
        if not isinstance(parameters.constraint, Choice):
            return 1
        return max(map(self._option_tokens, parameters.constraint.options))

    def _option_tokens(self, option: str) -> int:
        if option not in self._option_lengths:
            self._option_lengths[option] = self._engine.count_tokens(option) + 1  # plus the end token
        return self._option_lengths[option]

    def _reported_tokens(self, option: str, constraint: Constraint) -> int:
        """Return how many tokens the engine will report for an option; for an unknown option, count its text."""
        known = self._learned.tokens_of(option)
        if known is not None:
            return known

        def count_(text: str) -> int:
            return self._answer_tokens(text, constraint)

        return count_(option) + self._learned.beyond(count_)

    def _answer_tokens(self, text: str, constraint: Constraint) -> int:
        told = extras_of(self._engine).answer_tokens(text, constraint)
        return self._engine.count_tokens(text) if told is None else told

    def _answer(self, request: Request) -> tuple[str, int, tuple[float, ...] | None]:
        """Return a likely answer, its tokens, and the probabilities of the options if the request asks for them.

        Equal field values get equal answers, whatever the order of the fields.
        """
        return self._pack_answer(request) if request.pack else self._single_answer(request)

    def _pack_answer(self, request: Request) -> tuple[str, int, None]:
        """Return the likely answers to a pack, and their tokens."""
        answers, length, free = [], 0, 0
        means = [self._learned.mean(asked_in_pack(item)) for item in request.pack]
        for item in request.pack:
            alone = Request(request.id, "", item.parameters, item.function, item.instruction, item.fields)
            text, tokens, _ = self._single_answer(alone)
            earlier = self._learned.answers(asked_in_pack(item))
            if earlier is not None and self._learned.answers(asked_by(alone)) is None:
                text = _one_of(sorted(earlier[0]))((self._seed(b"", item.fields) + self._turn) % _SEEDS)
                self.sites[asked_by(alone)].learned = True
            # a free text stands for a longer one
            free += tokens if item.parameters.constraint is None else 0
            shown = "" if item.parameters.constraint is None else text
            answers.append((item.code, text, shown, item.parameters.constraint))
        text = pack_answer([(code, text, constraint) for code, text, _, constraint in answers])
        known = [mean for mean in means if mean is not None]
        if len(known) == len(means):
            length = round(sum(known))
        else:
            empty = pack_answer([(code, shown, constraint) for code, _, shown, constraint in answers])
            end = self._end if not free else 0
            length = free + self._answer_tokens(empty, request.parameters.constraint) + end
        return text, max(1, min(length, request.limit)), None

    def _single_answer(self, request: Request) -> tuple[str, int, tuple[float, ...] | None]:
        """Return what `_answer` does, for a single question."""
        asked = asked_by(request)
        if asked not in self._answerers:
            self._answerers[asked] = self._answerer(asked)
        self.sites[asked].orders[tuple(name for name, _ in request.fields)] += 1
        salt, pick, tokens = self._answerers[asked]
        seed = self._seed(salt, request.fields)
        text = pick((seed + self._turn) % _SEEDS)
        parameters = request.parameters
        wanted = parameters.probability and self._probable
        probabilities = likelihoods(parameters.constraint, text, seed) if wanted else None
        # The learned lengths include the thoughts, and an option is always written to its end.
        whole = parameters.reasoning not in {None, "off"} or isinstance(parameters.constraint, Choice)
        length = tokens(text, request)
        return text, max(self._least, length if whole else min(length, request.limit)), probabilities

    def _seed(self, salt: bytes, fields: Sequence[tuple[str, str]]) -> int:
        """Return a number for named values, whatever their order."""
        key = salt + repr(sorted(fields)).encode("utf-8", "surrogatepass")
        return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")

    def _answerer(self, asked: Asked) -> tuple[bytes, Callable[[int], str], _Tokens]:
        """Return a call site's salt, its function from a seed to an answer, and that from an answer to its tokens."""
        salt = blake2b(repr(asked).encode("utf-8", "surrogatepass")).digest()
        known = self._learned.answers(asked)
        self.sites[asked] = CallSiteForecast(learned=known is not None)
        if known is not None:
            texts, mean = known
            options = isinstance(asked[2].constraint, Choice) and asked[2].reasoning in {None, "off"}
            length = (lambda text, _: self._reported_tokens(text, asked[2].constraint)) if options else _spread(mean)
            return salt, _one_of(sorted(texts)), length
        parameters = asked[2]
        constraint = parameters.constraint
        if isinstance(parameters.constraint, Choice):
            alike = sorted(self._learned.alike(asked))
            options_ = _one_of(alike or parameters.constraint.options)
            return salt, options_, lambda text, _: self._reported_tokens(text, constraint)
        if parameters.constraint is None:
            return salt, answerer(None), self._text_tokens(asked)
        few = self._learned.mean(asked)
        if few is not None:
            return salt, answerer(constraint), _spread(few)
        return salt, answerer(constraint), lambda text, _: self._answer_tokens(text, constraint) + self._end

    def _text_tokens(self, asked: Asked) -> _Tokens:
        """Return a function to the tokens of a free text: as other calls of the function, else as usual for it."""
        function, instruction, parameters, _ = asked
        usual = self._usual.get((function, instruction, _unlimited(parameters)))
        length = self._learned.length(asked, others=usual is None)
        if length is not None or usual is None:
            return _spread(parameters.max_tokens if length is None else max(1.0, length))
        around = self._answer_tokens("", None)
        return lambda _, request: min(usual(request.fields), max(1, request.limit // _PARTS_OF_LIMIT)) + around


def _unlimited(parameters: Parameters) -> Parameters:
    """Return parameters without their limit: a small context can lower the limit of a call's answers."""
    return replace(parameters, max_tokens=0)


def _spread(mean: float) -> _Tokens:
    """Return a function to whole numbers that differ by one at most; their mean is `mean`."""
    wanted, given = 0.0, 0

    def tokens(_: str, __: Request) -> int:
        nonlocal wanted, given
        wanted += mean
        number = round(wanted) - given
        given += number
        return number

    return tokens


def _one_of(texts: Sequence[str]) -> Callable[[int], str]:
    """Return a function that picks a text by a seed.

    Neighbouring seeds pick the same text, so that the turns of several predictions pick all texts.
    """
    return lambda seed: texts[seed * len(texts) // _SEEDS]
