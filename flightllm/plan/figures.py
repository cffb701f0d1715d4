"""The predicted and actual cost of a query's calls, which EXPLAIN shows as text or as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from flightllm.llm.cost import ModelCosts, Work, Works, counted_work
from flightllm.plan.cache_texts import uncached
from flightllm.plan.parts import PlanPart

COUNTED = (
    "rows",
    "distinct_prompts",
    "cache_hits",
    "calls",
    "prompt_tokens",
    "cached_tokens",
    "written_tokens",
    "completion_tokens",
    "failed_rows",
    "repairs",
    "estimated",
    "packed",
)
"""The counters of a call site that are shown, in this order."""
_MOST_ORDERS = 5


@dataclass(frozen=True, slots=True)
class CallFigures:
    """The counters of one call site by name, and facts that only a prediction knows."""

    operator: str
    """The operator that makes the call; empty if the call runs as a function."""
    function: str
    text: str
    counts: Mapping[str, int]
    orders: Sequence[tuple[tuple[str, ...], int]] = ()
    """The field orders and how many prompts have each of them, the most common first."""
    learned: bool = False
    """True where predicted answers were drawn from earlier answers of this call, not from all allowed answers."""
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """How an operator makes the prompts: the keys `ordering` and `layout`. Empty if no operator makes the prompts."""
    backend: str = "model"
    """The backend that answers the call, such as `model` for a language model."""
    model: str | None = None
    """The name of the language model; None for the server's own model."""
    promise: Mapping[str, Any] | None = None
    """The certified figures of a call with a promise, or the predicted ones; see `CallRecord.promise`."""

    @property
    def key(self) -> tuple[str, str, str, str | None]:
        """Return the parts that distinguish this call site from others; a proxy has another model."""
        return self.operator, self.function, self.text, self.model

    @property
    def predicted_share(self) -> float | None:
        """The share of the prompts that the model of a promise gets. A call with no promise or no prompts has null."""
        if self.promise is None or not self.counts["distinct_prompts"]:
            return None
        return float(self.promise["predicted_share"])

    @property
    def work(self) -> Work:
        """Return the work that the call site gives to its language model."""
        if self.backend != "model":
            return Work()
        return counted_work(self.counts)

    @property
    def works(self) -> Works:
        """Return the work by model."""
        return {self.model: self.work}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a whole query: the number of returned rows, and the call sites in the order of their start."""

    rows: int
    calls: tuple[CallFigures, ...]
    seconds: float | None = None
    """Seconds that the query took; None for a prediction."""
    notes: tuple[str, ...] = ()
    """Limits of the prediction."""
    parts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The rows that each part of the plan returns, by the part's name; without the parts whose rows are not known."""
    is_whole: bool = True
    """False where the prediction ended before it knew all prompts."""

    @property
    def work(self) -> Work:
        """Return the work that all calls give to language models."""
        return sum((call.work for call in self.calls), Work())

    @property
    def works(self) -> Works:
        """Return the work by model."""
        works: dict[str | None, Work] = {}
        for call in self.calls:
            works[call.model] = works.get(call.model, Work()) + call.work
        return works

    @property
    def estimated(self) -> int:
        """Return how many answers of language models have estimated tokens."""
        return sum(call.counts["estimated"] for call in self.calls if call.backend == "model")

    @property
    def calls_per_site(self) -> list[int]:
        """Return how many calls each site makes."""
        return [call.counts["calls"] for call in self.calls]


def average(figures: Sequence[Figures]) -> Figures:
    """Return the average of several predictions of one query."""
    first, count = figures[0], len(figures)
    calls = []
    for site, call in enumerate(first.calls):
        same = [f.calls[site] for f in figures if site < len(f.calls) and f.calls[site].key == call.key]
        counts = {name: round(sum(s.counts[name] for s in same) / count) for name in COUNTED}
        orders: Counter[tuple[str, ...]] = Counter()
        for one in same:
            orders.update(dict(one.orders))
        shares = [(order, -(-number // count)) for order, number in orders.most_common()]
        calls.append(replace(call, counts=counts, orders=shares, learned=any(s.learned for s in same)))
    parts = {name: round(sum(f.parts.get(name, 0) for f in figures) / count) for name in first.parts}
    return replace(first, rows=round(sum(f.rows for f in figures) / count), calls=tuple(calls), parts=parts)


@dataclass(frozen=True, slots=True)
class RuleSaving:
    """A rule or setting that was applied, and the query's work without it (None: not tried)."""

    name: str
    without: Works | None


@dataclass(frozen=True, slots=True)
class Explained:
    """The output of EXPLAIN for a query with AI calls."""

    path: str
    """How the query runs: `operators` or `batch functions`; `plain` if the query has no AI calls."""
    engine: str
    plan: Sequence[tuple[str, str]]
    """Titles and texts of the query's stages and operators."""
    predicted: Figures | None = None
    """None if the query has no calls, or if their figures could not be predicted."""
    actual: Figures | None = None
    savings: Sequence[RuleSaving] = ()
    failures: Sequence[str] = ()
    """Reasons why something could not be predicted."""
    models: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The engines of all models except the server's own, by the model's name."""
    parts: Sequence[PlanPart] = ()
    """The plan as a graph."""
    caches: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The rules by which providers charge for their caches, by the name of the engine."""

    @property
    def notes(self) -> list[str]:
        """Return the failures, the limits of the prediction, and whether the actual figures are estimates."""
        estimated = self.actual.estimated if self.actual else 0
        told = f"the tokens of {estimated:,} answers are estimated: the endpoint reported none, or wrong ones"
        return [*self.failures, *(self.predicted.notes if self.predicted else ()), *([told] if estimated else [])]

    def pairs(self) -> list[tuple[CallFigures, CallFigures | None]]:
        """Return the prediction and the actual figures of each call site."""
        actual = list(self.actual.calls) if self.actual else []
        pairs = []
        for call in self.predicted.calls if self.predicted else ():
            met = next((a for a in actual if a.key == call.key), None)
            if met is not None:
                actual.remove(met)
            pairs.append((call, met))
        return pairs


def document(explained: Explained, costs: ModelCosts) -> dict[str, Any]:
    """Return the output of EXPLAIN as values that JSON can hold.

    Keys: `path`, `engine`, `models`, `caches`, `rows`, `operators` (each with `operator` and `calls`), `parts`,
    `total`, `savings`, `plan`, `notes`. A part of the plan has `kind`, `name`, `text`, `inputs`,
    `operators` and `rows`; the first part runs last. `inputs` are the names of the parts that it reads, and
    `operators` are the relational operators of a stage.

    A call has `model` (null for the server's own), `role`, `predicted_share`, `promise`, `answers` ('learned' or
    'assumed'), `ordering`, `layout`, `layout_reason`, `rows_per_request`, `questions_per_request`, `no_saving` and
    `field_orders`. It also has `steps`. The role of a proxy's calls is 'proxy', and of others null. `predicted_share`
    is the share of prompts that the model of a promise gets, and null without prompts. ANALYZE gives `promise` its
    figures, see `CallRecord.promise`. `no_saving` says why no order of the prompts saves anything. `rows_per_request`
    says how many rows share a request, or why each row is asked by itself. `questions_per_request` says the same of
    questions about one row. Both are null where nobody wishes this. `steps` says what a call over a set does, or how
    many calls each method of ranking takes. It is null for other calls. A saving is the query's work without a rule,
    minus its work with the rule.

    Figures are under `predicted` and, after ANALYZE, under `actual`; without ANALYZE, `actual` is null.
    `prefix_hit_rate` is between 0 and 1; `price` is null where no prices are configured. `estimated` counts the answers
    whose tokens are estimates, because the endpoint reported none or wrong ones. The predicted total also has
    `price_without_cache`, the bill if no prompt were found or stored. `caches` has the rules of providers' caches.
    """
    operators: dict[str, list[dict[str, Any]]] = {}
    for site, (call, actual) in enumerate(explained.pairs()):
        operators.setdefault(call.operator, []).append(
            {
                "call_site": site,
                "function": call.function,
                "text": call.text,
                "model": call.model,
                "role": call.notes.get("role"),
                "predicted_share": call.predicted_share,
                "promise": None if actual is None or actual.promise is None else dict(actual.promise),
                "answers": "learned" if call.learned else "assumed",
                "ordering": call.notes.get("ordering"),
                "layout": call.notes.get("layout"),
                "rows_per_request": call.notes.get("together"),
                "questions_per_request": call.notes.get("questions"),
                "layout_reason": call.notes.get("layout_why") or None,
                "no_saving": call.notes.get("idle") or None,
                "steps": steps(call, actual),
                "field_orders": [{"fields": list(f), "prompts": n} for f, n in call.orders[:_MOST_ORDERS]],
                "predicted": _counts(call, costs),
                "actual": actual and _counts(actual, costs),
            }
        )
    predicted, actual_all = explained.predicted, explained.actual
    return {
        "path": explained.path,
        "engine": explained.engine,
        "models": dict(explained.models),
        "caches": dict(explained.caches),
        "rows": {"predicted": predicted and predicted.rows, "actual": actual_all and actual_all.rows},
        "operators": [{"operator": name, "calls": calls} for name, calls in operators.items()],
        "parts": [_part(part, predicted, actual_all) for part in explained.parts],
        "total": {
            "predicted": predicted
            and {**_work(predicted.works, costs), "price_without_cache": costs.price(uncached(predicted.works))},
            "actual": actual_all
            and {
                **_work(actual_all.works, costs),
                "estimated": actual_all.estimated,
                "seconds": actual_all.seconds,
            },
        },
        "savings": [_saving(saving, predicted.works, costs) for saving in explained.savings] if predicted else [],
        "plan": [{"title": title, "text": text} for title, text in explained.plan],
        "notes": explained.notes,
    }


def _part(part: PlanPart, predicted: Figures | None, actual: Figures | None) -> dict[str, Any]:
    rows = {"predicted": predicted and predicted.parts.get(part.name), "actual": actual and actual.parts.get(part.name)}
    return {**asdict(part), "rows": rows}


def steps(call: CallFigures, actual: CallFigures | None) -> str | None:
    """Return what a call over a set does, or what the methods of ranking cost; None for other calls."""
    told = None if actual is None else actual.notes.get("steps")
    return told or call.notes.get("steps")


def _counts(call: CallFigures, costs: ModelCosts) -> dict[str, Any]:
    return {**{name: call.counts[name] for name in COUNTED}, **_rates(call.works, costs)}


def _work(works: Works, costs: ModelCosts) -> dict[str, Any]:
    work = sum(works.values(), Work())
    counts = {
        "calls": work.calls,
        "prompt_tokens": work.prompt_tokens,
        "cached_tokens": work.cached_tokens,
        "written_tokens": work.written_tokens,
        "completion_tokens": work.completion_tokens,
    }
    return {**counts, **_rates(works, costs)}


def _rates(works: Works, costs: ModelCosts) -> dict[str, Any]:
    rate = sum(works.values(), Work()).hit_rate
    return {"prefix_hit_rate": rate, "seconds": costs.seconds(works), "price": costs.price(works)}


@dataclass(frozen=True, slots=True)
class Saved:
    """The work of a query without a rule, minus its work with the rule; `price` is None if a price is unknown."""

    calls: int
    prompt_tokens: int
    computed_tokens: int
    completion_tokens: int
    seconds: float
    price: float | None

    @classmethod
    def of(cls, without: Works, chosen: Works, costs: ModelCosts) -> "Saved":
        """Return the difference between two ways to run a query."""
        more, less = sum(without.values(), Work()), sum(chosen.values(), Work())
        dear, cheap = costs.price(without), costs.price(chosen)
        return cls(
            more.calls - less.calls,
            more.prompt_tokens - less.prompt_tokens,
            more.computed_tokens - less.computed_tokens,
            more.completion_tokens - less.completion_tokens,
            costs.seconds(without) - costs.seconds(chosen),
            None if dear is None or cheap is None else dear - cheap,
        )


def _saving(saving: RuleSaving, chosen: Works, costs: ModelCosts) -> dict[str, Any]:
    """Return the saving as JSON; `saved` is null if the query was not tried without the rule."""
    without = saving.without
    return {"name": saving.name, "saved": None if without is None else asdict(Saved.of(without, chosen, costs))}
