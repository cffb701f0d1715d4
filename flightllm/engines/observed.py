"""Observe an engine: whether it answers, and statistics of its answers that predict later answers.

`ObservedEngine` records the statistics while a query runs: some answers of each call site, and their lengths. EXPLAIN
shows the predictions. So predictions for a user come only from that user's answers.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

from flightllm.common.newest import Newest
from flightllm.engines.extras import EngineExtras, ForwardedExtras, T, extras_of
from flightllm.errors import EngineError, EngineUnavailableError
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Choice, Completion, Engine, PackItem, Parameters, PrefixCache, Request
from flightllm.llm.pack_answers import read_pack
from flightllm.llm.packs import pack_parameters
from flightllm.quality.forecast import Seen
from flightllm.quality.likely_first import Effort
from flightllm.quality.targets import Targets

Asked: TypeAlias = tuple[str, str, Parameters, tuple[str, ...]]
"""A call site from the engine's view: function, instruction, parameters, and the sorted names of the fields."""
_MOST_SITES, _MOST_USERS = 200, 64
_MOST_RUNS = 50
_KEPT_ANSWERS, _KEPT_TEXTS = 256, 16
"""How many of the latest answers of a call site are kept: they give the share of Yes to about 3 percentage points.

Fewer free texts are kept, because they can be long and no decision depends on them."""
_KEPT_OPTIONS = 256
_CODE_CHARACTERS = 16
"""The characters around an answer in a pack, for its share of the tokens."""
_ENOUGH = 16
"""The least number of answers for a prediction."""
_ENOUGH_OF_ONE = 4
"""The least number of answers to one instruction, to predict the length of others and the share of each option."""
_MOST_WITHOUT_PROBABILITIES = 8
"""After so many answers in a row without probabilities, the engine counts as one that returns none."""
_REMEMBERED_SECONDS = 30.0
"""After this long, a failed engine counts as up again: callers do not ask an engine that is down, so they would not
notice its return."""


def asked_by(request: Request) -> Asked:
    """Return the call site of a request; a request with a NULL field has fewer fields, and so another call site."""
    if request.pack:
        return asked_in_pack(request.pack[0])
    return request.function, request.instruction, request.parameters, tuple(sorted(name for name, _ in request.fields))


def asked_in_pack(item: PackItem) -> Asked:
    """Return the call site of a question of packs: all packs of a call are one site, whatever their codes."""
    return item.function, item.instruction, pack_parameters(item.parameters, ()), ()


@dataclass(slots=True)
class _Seen:
    texts: list[str] = field(default_factory=list)
    count: int = 0
    tokens: int = 0


class Learned:
    """The latest answers of a model to one user, per call site, in memory. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sites = Newest[Asked, _Seen](_MOST_SITES)
        self._options: dict[str, int] = {}
        self._last: tuple[Asked | None, _Seen] = (None, _Seen())
        """The call site that was observed last: it is the latest one of `_sites`, and need not be moved to the end."""
        self._runs = Newest[tuple[Hashable, bool], Seen](_MOST_RUNS)
        """The last run of each call with a promise over all rows, and under a LIMIT (True)."""
        self._without_probabilities = 0
        """The answers, since the last one with probabilities, that came without those that they were asked with."""

    def observe(self, asked: Asked, completion: Completion) -> None:
        """Record an answer; ignore a failed completion."""
        if completion.text is None:
            return
        with self._lock:
            if self._last[0] is not asked:
                self._last = asked, self._sites.get(asked) or _Seen()
                self._sites[asked] = self._last[1]
            seen, most = self._last[1], _KEPT_TEXTS if asked[2].constraint is None else _KEPT_ANSWERS
            if len(seen.texts) < most:
                seen.texts.append(completion.text)
            else:
                seen.texts[seen.count % most] = completion.text
            if asked[2].probability:
                self._without_probabilities += 1
                if completion.probabilities is not None:
                    self._without_probabilities = 0
            if isinstance(asked[2].constraint, Choice):
                self._options.pop(completion.text, None)
                self._options[completion.text] = completion.completion_tokens
                if len(self._options) > _KEPT_OPTIONS:
                    del self._options[next(iter(self._options))]
            seen.count += 1
            seen.tokens += completion.completion_tokens

    def observe_pack(self, pack: Sequence[PackItem], completion: Completion) -> None:
        """Record the answers of a pack. Each has a share of the tokens by its length, and those of its code."""
        if completion.text is None:
            return
        codes = [item.code for item in pack]
        reading = read_pack(completion.text, codes, [item.parameters.constraint for item in pack])
        sites = [asked_in_pack(item) for item in pack]
        sizes = [_CODE_CHARACTERS + len(reading.texts.get(place, "")) for place in range(len(pack))]
        ends = [completion.completion_tokens * end // sum(sizes) for end in accumulate(sizes, initial=0)]
        with self._lock:
            for place, asked in enumerate(sites):
                seen = self._sites.get(asked) or _Seen()
                self._sites[asked] = seen
                self._last = asked, seen
                if place in reading.texts:
                    free = pack[place].parameters.constraint is None
                    seen.texts = [*seen.texts, reading.texts[place]][-(_KEPT_TEXTS if free else _KEPT_ANSWERS) :]
                seen.count += 1
                seen.tokens += ends[place + 1] - ends[place]

    def share(self, asked: tuple[str, str, Parameters], test: Callable[[str], bool]) -> float | None:
        """Return the share of answers to a question, also in packs, for which a test holds; None for too few."""
        packed = pack_parameters(asked[2], ())
        with self._lock:
            texts = [
                text
                for (function, instruction, parameters, _), seen in self._sites.items()
                if (function, instruction) == asked[:2] and parameters in (asked[2], packed)
                for text in seen.texts
            ]
        return sum(map(test, texts)) / len(texts) if len(texts) >= _ENOUGH else None

    def note_run(self, call: Hashable, seen: Seen) -> None:
        """Keep what the latest run of a call with a promise told about its proxy; equal keys mean the same question.

        A run under a LIMIT asks about likely rows above all, so it does not replace a run over all rows.
        """
        with self._lock:
            self._runs[call, seen.limited] = seen

    def share_of_run(self, call: Hashable, units: int, targets: Targets) -> float | None:
        """Return the predicted share of units that the model is asked about; None if there was no run."""
        seen = self._run(call, limited=False)
        return None if seen is None else seen.share(units, targets)  # a trial of a second: answers need not wait for it

    def scored_in_run(self, call: Hashable) -> tuple[float, ...]:
        """Return `Seen.scored` of the last run; empty if there was no run."""
        seen = self._run(call, limited=False)
        return () if seen is None else seen.scored

    def first_of_run(self, call: Hashable, units: int, rows: int, price: float) -> Effort | None:
        """Return what it takes to find the first `rows` of `units`; None if there was no run."""
        seen = self._run(call, limited=True)
        return None if seen is None else seen.first(units, rows, price)

    def _run(self, call: Hashable, *, limited: bool) -> Seen | None:
        """Return the last run of a call of this kind, or else of the other kind."""
        with self._lock:
            return self._runs.get((call, limited)) or self._runs.get((call, not limited))

    def has_probabilities(self) -> bool:
        """Return False where the latest answers came without the probabilities that they were asked with."""
        return self._without_probabilities < _MOST_WITHOUT_PROBABILITIES

    def tokens_of(self, option: str) -> int | None:
        """Return how many tokens the engine reported for an option of a `Choice`; None if it was never an answer."""
        with self._lock:
            return self._options.get(option)

    def beyond(self, count: Callable[[str], int]) -> int:
        """Return how many tokens the engine reports for the latest option beyond the tokens that `count` returns.

        The number is negative if the engine reports fewer.
        """
        with self._lock:
            known = list(self._options.items())[-1:]
        return known[0][1] - count(known[0][0]) if known else 0

    def length(self, asked: Asked, *, others: bool = True) -> float | None:
        """Return the mean tokens of a call's free texts, at most its `max_tokens`; None while there are too few texts.

        The texts are those of the same instruction, else those of the function, else, with `others`, those of all
        functions. A few texts of the same instruction are enough.
        """
        function, instruction, parameters, _ = asked
        with self._lock:
            sites = [(a, seen.count, seen.tokens) for a, seen in self._sites.items() if a[2].constraint is None]
        own = [site for site in sites if site[0][0] == function]
        same = [site for site in own if site[0][1] == instruction]
        for some, enough in ((same, _ENOUGH_OF_ONE), (own, _ENOUGH), (sites if others else [], _ENOUGH)):
            count = sum(answers for _, answers, _ in some)
            if count >= enough:
                return min(parameters.max_tokens, sum(tokens for _, _, tokens in some) / count)
        return None

    def alike(self, asked: Asked) -> list[str]:
        """Return likely answers of a call site with few answers of its own; empty while there are too few.

        A few answers of the same instruction are returned with each option once: so no option is impossible.
        Otherwise the answers are those of all call sites with the same function and options.
        """
        function, instruction, parameters, _ = asked
        with self._lock:
            sites = [
                (a[1], list(seen.texts))
                for a, seen in self._sites.items()
                if a[0] == function and a[2].constraint == parameters.constraint
            ]
        own = [text for other, texts in sites if other == instruction for text in texts]
        if len(own) >= _ENOUGH_OF_ONE:
            return [*own, *(parameters.constraint.options if isinstance(parameters.constraint, Choice) else ())]
        texts = [text for _, some in sites for text in some]
        return texts if len(texts) >= _ENOUGH else []

    def mean(self, asked: Asked) -> float | None:
        """Return the mean tokens of a call site's answers; None while there are too few."""
        with self._lock:
            seen = self._sites.get(asked)
            return None if seen is None or seen.count < _ENOUGH_OF_ONE else seen.tokens / seen.count

    def answers(self, asked: Asked) -> tuple[list[str], float] | None:
        """Return texts from which to draw likely answers, and their mean tokens; None while there are too few."""
        with self._lock:
            seen = self._sites.get(asked)
            if seen is None or seen.count < _ENOUGH:
                return None
            return list(seen.texts), seen.tokens / seen.count


class LearnedByUser:
    """The statistics of one model's answers, separate for each of the most recent users. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = Newest[str, Learned](_MOST_USERS)

    def of(self, user: str) -> Learned:
        """Return the statistics of a user's answers, which also get the user's later answers."""
        with self._lock:
            learned = self._users.get(user) or Learned()
            self._users[user] = learned
            return learned


class Health:
    """The last observed state of an engine. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed_at: float | None = None

    def answered(self) -> None:
        """Record that the engine answered."""
        self._failed_at = None

    def failed(self) -> None:
        """Record that the engine could not be reached."""
        self._failed_at = self._clock()

    @property
    def up(self) -> bool:
        """Return whether the engine had no failure within the last `_REMEMBERED_SECONDS`, or has answered since."""
        failed = self._failed_at
        return failed is None or self._clock() - failed > _REMEMBERED_SECONDS


@dataclass(frozen=True, slots=True)
class ObservedEngine(ForwardedExtras):
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

    def answer_share(self, asked: tuple[str, str, Parameters], test: Callable[[str], bool]) -> float | None:
        """Return `Learned.share` of the user's answers."""
        return self.learned.share(asked, test)

    def close(self) -> None:
        """Do nothing: the engine belongs to the server."""

    def _forward(self, question: Callable[[EngineExtras], T]) -> T:
        return question(extras_of(self.engine))

    def generate(self, requests: Iterator[Request | None], cancelled: Callable[[], bool]) -> Iterator[Completion]:
        """Yield the engine's completions and record them; see `Engine.generate`.

        Only the time spent waiting for a completion counts, not the time in which the caller uses it.
        """
        asked: dict[int, Asked] = {}
        packs: dict[int, Sequence[PackItem]] = {}
        calls = prompt_tokens = cached_tokens = completion_tokens = 0
        seconds = 0.0
        now, observe, answered = time.monotonic, self.learned.observe, self.health.answered
        waited = now()
        try:
            for completion in self.engine.generate(_noted(requests, asked, packs), cancelled):
                seconds += now() - waited
                calls += 1
                prompt_tokens += completion.prompt_tokens
                cached_tokens += completion.cached_tokens
                completion_tokens += completion.completion_tokens
                if (pack := packs.pop(completion.id, None)) is not None:
                    del asked[completion.id]
                    self.learned.observe_pack(pack, completion)
                else:
                    observe(asked.pop(completion.id), completion)
                answered()
                yield completion
                waited = now()
        except EngineError as error:
            if isinstance(error, EngineUnavailableError):
                self.health.failed()
            error.args = (self.in_own_words(error),)
            raise
        finally:
            self.costs.observe(Work(calls, prompt_tokens, cached_tokens, completion_tokens), seconds)


def _noted(
    requests: Iterator[Request | None], asked: dict[int, Asked], packs: dict[int, Sequence[PackItem]]
) -> Iterator[Request | None]:
    """Yield the requests; note the call site of each, which neighbours share as an object, and the items of packs."""
    last: Request | None = None
    names: list[str] = []
    site: Asked | None = None
    for request in requests:
        if request is not None:
            own = [name for name, _ in request.fields]
            if (
                site is None
                or last is None
                or own != names
                or request.parameters is not last.parameters
                or request.instruction is not last.instruction
                or request.function is not last.function
            ):
                last, names, site = request, own, asked_by(request)
            asked[request.id] = site
            if request.pack:
                packs[request.id] = request.pack
        yield request
