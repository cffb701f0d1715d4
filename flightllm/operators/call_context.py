"""The input of a CallExecutor: its calls, the order of their steps, and the services that answer their prompts.

`ModelBinding` holds the engine and the cache of a run. `Precedence` lets the first prompts of a query go before the
later prompts of other queries. `LimitTracker` counts the rows that a LIMIT needs; operators
without a CallExecutor use it too.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from flightllm.config.session_settings import INTERACTIVE_PROMPTS
from flightllm.functions.call import AICall
from flightllm.llm.cost import Costs, Work
from flightllm.llm.engine import Engine
from flightllm.llm.prompt_formats import PLAIN, PromptFormat, Question
from flightllm.operators.batches import Conditions
from flightllm.operators.budget import RequestBudget
from flightllm.operators.cache import CacheKeys
from flightllm.operators.in_flight import InFlightRequests, Leases
from flightllm.operators.label_budget import LabelBudget
from flightllm.operators.pack_keys import PackedAnswers, PackKeys
from flightllm.operators.read_through import Answers
from flightllm.operators.rows import Counters, Named, Response
from flightllm.plan.stages import BoundStep, Condition
from flightllm.quality.forecast import Seen
from flightllm.quality.likely_first import Effort

_CAUTION = 0.75
"""One wave under a LIMIT takes this part of the likely need, because every superfluous prompt is wasted."""
_INTERACTIVE, _BULK = 0, 1
_LEARNED = 16
"""The rows that a share from earlier queries counts as."""


class Precedence:
    """The priorities of one query's prompts, in the order in which they are sent.

    `kind` is the setting `flightllm.priority`. `auto` puts a query's first `INTERACTIVE_PROMPTS` prompts before the
    later prompts of other queries, so that a short query is answered beside a long one. `interactive` and `bulk` give
    all prompts one priority. Several threads can use it without a lock: a prompt that is not counted does no harm.
    """

    def __init__(self, kind: str = "auto") -> None:
        self._kind = kind
        self._sent = 0

    @property
    def waits(self) -> bool:
        """Return whether a prompt can wait for another one, because that costs less."""
        return self._kind != "interactive"

    @property
    def now(self) -> int:
        """Return the priority of a prompt that is sent now; prompts with lower numbers go first."""
        if self._kind == "auto":
            return _INTERACTIVE if self._sent < INTERACTIVE_PROMPTS else _BULK
        return _INTERACTIVE if self._kind == "interactive" else _BULK

    def sent(self) -> None:
        """Count a prompt as sent."""
        self._sent += 1


@dataclass(frozen=True, slots=True)
class ModelBinding:
    """The engine and the answer cache of one run of a query. A dry run binds substitutes that cost nothing."""

    engine: Engine
    cache: Answers
    in_flight: InFlightRequests
    window: int
    """Prompts that each replica of the engine keeps in flight."""
    budget: RequestBudget | None = None
    reader: str = ""
    """The only user who can reuse these answers, because of a right to a part of a table; empty: all users can."""
    tenant: str = ""
    """Prompts of one tenant can share prefixes in the engine's cache."""
    costs: Costs = field(default_factory=Costs)
    """The engine's speed."""
    precedence: Precedence = field(default_factory=Precedence)
    """The priority of the query's next prompt."""
    replicas: int = 1
    """The number of engines behind `engine`."""
    repair: bool = True
    """A prompt is sent a second time if its answer has the wrong form."""
    prompt_format: PromptFormat = PLAIN
    """The format of prompts for the model."""
    user: str = ""
    """The user who runs the query: users share an engine in equal parts."""
    has_probabilities: Callable[[], bool] = lambda: True
    """Returns False where the latest answers came without the probabilities that they were asked with."""
    asked_share: Callable[[AICall, int], float | None] | None = None
    """In a dry run: returns the predicted share that this model gets of a number of prompts of a call with a promise.

    It returns None where no earlier run tells it."""
    scored_shares: Callable[[AICall], Sequence[float]] | None = None
    """In a dry run of filters with one promise: returns for each filter the predicted share of prompts to its proxy."""
    first_effort: Callable[[AICall, int, int, float], Effort | None] | None = None
    """In a dry run: returns what it takes to find the first of some units under a LIMIT; see `Learned.first_of_run`."""
    guessed: Callable[[], int] = lambda: 0
    """In a dry run: returns how many answers were guessed so far."""
    note_run: Callable[[AICall, Seen], None] | None = None
    """Keeps what a run of a call with a promise told about its proxy, for predictions."""
    collects: bool = False
    """Whether the engine leaves prompts without an answer: a later pass of the deferred statement has it."""

    @property
    def refusal(self) -> str:
        """Return why the budget allows no more requests; empty while it does."""
        return "" if self.budget is None else self.budget.refusal or ""

    @property
    def revision(self) -> str:
        """Return the beginning of an answer's cache key: the model, the prompt format and the reader."""
        revision = self.engine.revision
        if not self.prompt_format.plain:
            revision = f"{revision} asked {self.prompt_format.name}"
        return f"{revision} for {self.reader}" if self.reader else revision

    def keys(self, call: AICall, *, fields_first: bool) -> CacheKeys:
        """Return the cache keys of a call's answers by this model."""
        asked = call.asked or Question("", call.instruction, "")
        wording = "" if self.prompt_format.plain else asked.revision
        return CacheKeys(call, self.revision, wording, fields_first=fields_first)


class LimitTracker:
    """Count the rows that the LIMIT needs and those that it got. One thread uses it.

    A trial is one distinct tuple, or one row if rows are taken in their order. The tracker learns how many rows a trial
    brings to the LIMIT. So the waves of trials grow if few rows pass. A wave has at least the trials that are needed
    even if all of them pass. Without a limit, every trial can run at once.

    Example, `LIMIT 10`:

    | after | passing rows per trial | trials needed |
    |---|---|---|
    | nothing | 1 / 2, a guess | 15 |
    | 20 trials, no row passed | 1 / 22 | 165 |
    | the same, and then 9 rows | 10 / 22 | 1 |
    """

    def __init__(self, limit: int | None = None, skipped: int = 0) -> None:
        """`limit` rows are needed, and the query does not get the first `skipped` of them."""
        self._limit = limit
        self._skipped = skipped
        self._rows = 0
        self._trials = 0
        self.rows_per_trial = 1.0
        """The average number of rows of a trial."""

    @property
    def limited(self) -> bool:
        """Return whether there is a limit."""
        return self._limit is not None

    @property
    def rows(self) -> int:
        """Return how many rows have reached the LIMIT."""
        return self._rows

    @property
    def returned(self) -> int:
        """Return how many rows the query gets; 0 without a limit."""
        return 0 if self._limit is None else self._limit - self._skipped

    @property
    def rows_left(self) -> int:
        """Return how many rows the LIMIT still needs.

        Raises:
            ValueError: there is no limit.
        """
        if self._limit is None:
            raise ValueError("there is no limit")
        return max(0, self._limit - self._rows)

    def add_rows(self, rows: int) -> None:
        """Count rows that reached the LIMIT."""
        self._rows += rows

    def add_trials(self, trials: int) -> None:
        """Count trials that the operator has finished, whether their rows passed or not."""
        self._trials += trials

    def trials_needed(self, running: int = 0) -> int:
        """Return how many more trials to begin while `running` ones are not finished; at least 1 if none runs.

        Raises:
            ValueError: there is no limit.
        """
        if self._limit is None:
            raise ValueError("there is no limit")
        left = self._limit - self._rows
        # One success in two trials is counted before the first trial, so the estimate is never 0.
        most = max(1.0, min(self.rows_per_trial, left))
        passing = (self._rows + most) / (self._trials + 2)
        wanted = max(math.ceil(left / most), int(_CAUTION * left / passing))
        return max(wanted - running, 0 if running else 1)


@dataclass(slots=True)
class _Figures:
    """The cost and selectivity of one step; it starts with the expected cost, and as if half of the rows passed."""

    expected: float
    rows: int = 0
    kept: int = 0
    cost: float = 0.0

    @property
    def rank(self) -> float:
        """Return the cost of dropping one row."""
        cost = (self.cost + self.expected) / (self.rows + 1)
        return cost * (self.rows + 2) / (self.rows - self.kept + 1)


class Ranking:
    """Rank the steps by cost / (1 - selectivity), cheapest first; steps that drop no row come last.

    `expected` is the work of one row in each step, before any row is seen. `cost` turns work into a number. The rank is
    that of Hellerstein and Stonebraker, "Predicate Migration", SIGMOD 1993.
    """

    def __init__(self, steps: Sequence[BoundStep], expected: Sequence[Work], cost: Callable[[Work], float]) -> None:
        self.steps = steps
        """The steps, by the number that the methods take."""
        self._cost = cost
        self._figures = [_Figures(cost(work)) for work in expected]
        self.likely: dict[int, float] = {}
        """The shares of rows that steps kept in earlier queries, where they are known."""
        self.guarded: dict[int, float] = {}
        """The calls that wait for another call's answer, and the share of rows that are expected to need them."""
        self.learns = sum(step.condition is not None for step in steps) > 1
        """True with several filters, whose order can be learned."""

    def next(self, done: Collection[int]) -> list[int]:
        """Return the steps that can follow the steps in `done`, best first; an empty list after the last step."""
        free = [i for i, s in enumerate(self.steps) if i not in done and s.after.issubset(done)]
        return sorted(free, key=self._key)

    def _key(self, step: int) -> tuple[bool, float, int]:
        return (self.steps[step].condition is None, self._figures[step].rank, step)

    def share(self, step: int) -> float:
        """Return the share of rows that a step is expected to keep."""
        if self.steps[step].condition is None:
            return 1.0
        found = self._figures[step]
        likely, weight = self.likely.get(step, 0.5), 2 if step not in self.likely else _LEARNED
        return (found.kept + weight * likely) / (found.rows + weight)

    def filtered(self, step: int, rows: int, kept: int) -> None:
        """Record that a step kept `kept` of `rows` rows."""
        self._figures[step].rows += rows
        self._figures[step].kept += kept

    def paid(self, step: int, work: Work) -> None:
        """Record the work that a prompt of a step took."""
        if self.learns:
            self._figures[step].cost += self._cost(work)


def all_at_once(calls: int) -> Ranking:
    """Return the ranking of a single step that asks all calls for all rows."""
    return Ranking([BoundStep((tuple(range(calls)),), None, frozenset())], [Work()], lambda _: 0.0)


@dataclass(frozen=True, slots=True)
class CallSite:
    """One call of the pass.

    Example: `ai_filter('Is {a} like {b}?', a, b)`, whose tuples are `(a, b)` and whose prompts begin with `b`, has the
    arguments `((0,), (1,))` and the order `(1, 0)`.
    """

    ai: AICall
    arguments: tuple[tuple[int, ...], ...]
    """For each field of `ai`, the positions of its value in a tuple: one position, or one for each element of a
    list."""
    order: tuple[int, ...]
    """The positions of a tuple, for batches without own orders; without `keeps_field_order`, in prompt order."""
    when: int | None
    """The boolean column that says which rows need the call."""
    guard: Condition | None
    """The condition that says so in place of a column."""
    keys: CacheKeys | PackKeys
    counters: Counters
    fields_first: bool = False
    """The prompt begins with the fields, which several calls share, and not with the instruction."""
    prompt_format: PromptFormat = PLAIN
    keeps_field_order: bool = True
    """The fields have the order in which the call has them, so that the prompt depends on nothing but the call."""
    prepare: Callable[[Callable[[], bool]], AICall] | None = None
    """Returns the call that takes the place of `ai` before the first prompt; it asks the call's examples. It gets a
    function that says whether the query was cancelled."""
    asks_example: bool = False
    """The call asks an example or a sampled row, so it adds no row to the counters."""
    sampled: set[bytes] | None = None
    """The keys of the prompts about sampled rows. The sample counts these prompts, so the rows do not."""
    together: int = 1
    """How many rows can share a request."""
    joins: bool = False
    """Whether questions of other calls about the same row can share a request with those of this call."""
    joined_fields_first: bool = False
    """Whether such a request begins with the fields, by the setting. Else it begins with the questions of all rows."""
    packing: Callable[[Callable[[], bool]], int] | None = None
    """Returns `together` before the first prompt; it asks about sampled rows. It gets what `prepare` gets."""
    packs_only: bool = False
    """Answers to single prompts do not stand in for those of packs."""
    label_budget: LabelBudget | None = None
    """The prompts that the model can get, where it is asked about every row; None for any number."""

    spares_too_long: bool = False
    """With `on_error => 'fail'`, a prompt that is too long for the model gives NULL, and the query goes on. The caller
    then asks in parts; `CallContext.errors` has the error."""

    @property
    def repeats(self) -> bool:
        """Return whether distinct tuples can have equal keys, because of lists, normalized values or unused columns."""
        used = {position for positions in self.arguments for position in positions}
        return len(used) < len(self.order) or bool(self.ai.normalize or self.ai.lists)

    @property
    def unprepared(self) -> bool:
        """Return whether `prepared` must be called before the first prompt."""
        return self.prepare is not None or self.packing is not None

    @property
    def packs(self) -> bool:
        """Return whether rows can share requests, now or once the site is prepared."""
        return self.together > 1 or self.packing is not None

    @property
    def marks(self) -> bool:
        """Return whether answers to shared requests have keys of their own."""
        return self.together > 1 or self.joins

    def prepared(self, binding: ModelBinding, cancelled: Callable[[], bool]) -> "CallSite":
        """Return this site with the call that `prepare` returns, and with the rows in a request."""
        call = self.ai if self.prepare is None else self.prepare(cancelled)
        together = self.together if self.packing is None else self.packing(cancelled)
        alone = binding.keys(call, fields_first=self.fields_first)
        keys: CacheKeys | PackKeys = alone
        if together > 1 or self.joins:
            keys = PackKeys(alone, binding.user, questions=self.joins)
        if isinstance(keys, PackKeys) and self.sampled is not None:
            self.sampled.update([keys.marked(key) for key in self.sampled])
        return replace(self, ai=call, keys=keys, together=together, prepare=None, packing=None)

    def prompt(self, fields: Sequence[tuple[str, str]]) -> str:
        """Return the text of the call's prompt for named values in prompt order."""
        return self.ai.prompt(fields, fields_first=self.fields_first, prompt_format=self.prompt_format)

    def ends(self, fields: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """Return where the parts of the prompt for these values end, see `PromptFormat.ends`."""
        ai, form = self.ai, self.prompt_format
        return form.ends(ai.instruction, ai.asked, fields, fields_first=self.fields_first)

    def fields_part(self, prompt: str) -> int:
        """Return how many characters at a prompt's start are those of other calls over the same values too."""
        return self.prompt_format.shared_start(prompt, self.prompt([])) if self.fields_first else 0

    def named(self, order: Sequence[int]) -> list[Named]:
        """Return the fields in prompt order. Of a required list, only the first element must be there."""
        rank = {position: 0 if self.keeps_field_order else at for at, position in enumerate(order)}
        placed = [(position, field) for field, positions in enumerate(self.arguments) for position in positions]
        ranked = sorted(placed, key=lambda place: rank[place[0]])
        ai = self.ai
        return [
            (ai.fields[f], position, f in ai.required and position == self.arguments[f][0], f in ai.lists)
            for position, f in ranked
        ]


@dataclass(frozen=True, slots=True)
class CallContext:
    """The calls and steps of one pass, and the services that answer the calls."""

    binding: ModelBinding
    leases: Leases
    sites: list[CallSite]
    """A site that `prepare` has prepared takes the place of the one before."""
    ranking: Ranking
    """The steps of the pass, and which of them goes first."""
    conditions: Conditions | None = None
    """Needed if a step has a condition or a call has a guard."""
    tracker: LimitTracker = field(default_factory=LimitTracker)
    dedup: bool = True
    """Equal prompts are sent once; otherwise each tuple has a prompt of its own."""
    prompts_counted: bool = True
    """The number of prompts is known before the first one, and the caller has counted them."""
    errors: dict[bytes, Response] = field(default_factory=dict)
    """The errors of prompts, by key. Passes with the same ones do not send a prompt again that got an error."""

    @property
    def answers(self) -> Answers:
        """Return the answer cache; for shared requests, it also has answers to single prompts."""
        packs = any((site.packs or site.joins) and not site.packs_only for site in self.sites)
        return PackedAnswers(self.binding.cache) if packs else self.binding.cache
