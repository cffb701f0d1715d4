"""What the calls of a query take, predicted and actual, in one shape for texts and JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from flightllm.model.cost import ModelCosts, Work, Works

COUNTED = (
    "rows",
    "distinct_prompts",
    "cache_hits",
    "calls",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "failed_rows",
    "repairs",
)
"""Counters of a call site that are shown, in this order."""
_MOST_ORDERS = 5


@dataclass(frozen=True, slots=True)
class CallFigures:
    """One call site: its counters by name, and what only a prediction knows."""

    operator: str
    """The operator that it is a call of; empty where it runs as a function."""
    function: str
    text: str
    counts: Mapping[str, int]
    orders: Sequence[tuple[tuple[str, ...], int]] = ()
    """Field orders and how many prompts have them, the most common first."""
    learned: bool = False
    """Whether its answers were drawn from earlier ones of this call, not from all that are allowed."""
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """How its prompts are made: `ordering` and `layout`, where an operator makes them."""
    backend: str = "model"
    """Who answers it."""
    model: str | None = None
    """Which language model, where it is not the server's own."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells it from other call sites."""
        return self.operator, self.function, self.text

    @property
    def work(self) -> Work:
        """Return what it asks of its language model."""
        if self.backend != "model":
            return Work()
        tokens = (self.counts[name] for name in ("prompt_tokens", "cached_tokens", "completion_tokens"))
        return Work(self.counts["calls"], *tokens)

    @property
    def works(self) -> Works:
        """Return the same by model."""
        return {self.model: self.work}


@dataclass(frozen=True, slots=True)
class Figures:
    """A whole query: the rows it returns and its call sites, in the order in which they began."""

    rows: int
    calls: tuple[CallFigures, ...]
    seconds: float | None = None
    """How long it took; None for a prediction."""
    notes: tuple[str, ...] = ()
    """What bounds the prediction."""

    @property
    def work(self) -> Work:
        """Return what all calls ask of language models."""
        return sum((call.work for call in self.calls), Work())

    @property
    def works(self) -> Works:
        """Return the same by model."""
        works: dict[str | None, Work] = {}
        for call in self.calls:
            works[call.model] = works.get(call.model, Work()) + call.work
        return works

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
    return replace(first, rows=round(sum(f.rows for f in figures) / count), calls=tuple(calls))


@dataclass(frozen=True, slots=True)
class Saving:
    """A rule or a setting that was applied, and what the query would take without it (None: not tried)."""

    name: str
    without: Works | None


@dataclass(frozen=True, slots=True)
class Explained:
    """All that EXPLAIN knows of a query with AI calls."""

    path: str
    """How it runs: `operators`, `batch functions`, or `plain` without calls."""
    engine: str
    plan: Sequence[tuple[str, str]]
    """Titles and texts of its stages and operators."""
    predicted: Figures | None = None
    """None where there are no calls, or where they could not be predicted."""
    actual: Figures | None = None
    savings: Sequence[Saving] = ()
    failures: Sequence[str] = ()
    """Why something could not be predicted."""
    models: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The engines of the models other than the server's own, by name."""

    @property
    def notes(self) -> list[str]:
        """Return what bounds all this."""
        return [*self.failures, *(self.predicted.notes if self.predicted else ())]

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
    """Return all of it as what JSON can hold.

    Keys: `path`, `engine`, `models`, `rows`, `operators` (each with `operator` and `calls`), `total`, `savings`,
    `plan`, `notes`. A call has `model` (null for the server's own), `answers` ('learned' or 'assumed'), `ordering`,
    `layout` and `field_orders`; what was saved is what the query would take without a rule, less what it takes. Figures
    come under `predicted` and, after ANALYZE, under `actual`; elsewhere `actual` is null. `prefix_hit_rate` is between
    0 and 1; `price` is null where no prices are configured.
    """
    operators: dict[str, list[dict[str, Any]]] = {}
    for site, (call, actual) in enumerate(explained.pairs()):
        operators.setdefault(call.operator, []).append(
            {
                "call_site": site,
                "function": call.function,
                "text": call.text,
                "model": call.model,
                "answers": "learned" if call.learned else "assumed",
                "ordering": call.notes.get("ordering"),
                "layout": call.notes.get("layout"),
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
        "rows": {"predicted": predicted and predicted.rows, "actual": actual_all and actual_all.rows},
        "operators": [{"operator": name, "calls": calls} for name, calls in operators.items()],
        "total": {
            "predicted": predicted and _work(predicted.works, costs),
            "actual": actual_all and {**_work(actual_all.works, costs), "seconds": actual_all.seconds},
        },
        "savings": [_saving(saving, predicted.works, costs) for saving in explained.savings] if predicted else [],
        "plan": [{"title": title, "text": text} for title, text in explained.plan],
        "notes": explained.notes,
    }


def _counts(call: CallFigures, costs: ModelCosts) -> dict[str, Any]:
    return {**{name: call.counts[name] for name in COUNTED}, **_rates(call.works, costs)}


def _work(works: Works, costs: ModelCosts) -> dict[str, Any]:
    work = sum(works.values(), Work())
    counts = {
        "calls": work.calls,
        "prompt_tokens": work.prompt_tokens,
        "cached_tokens": work.cached_tokens,
        "completion_tokens": work.completion_tokens,
    }
    return {**counts, **_rates(works, costs)}


def _rates(works: Works, costs: ModelCosts) -> dict[str, Any]:
    rate = sum(works.values(), Work()).hit_rate
    return {"prefix_hit_rate": rate, "seconds": costs.seconds(works), "price": costs.price(works)}


@dataclass(frozen=True, slots=True)
class Saved:
    """What a query would take without something, less what it takes; no price where one is not known."""

    calls: int
    prompt_tokens: int
    computed_tokens: int
    completion_tokens: int
    seconds: float
    price: float | None

    @classmethod
    def of(cls, without: Works, chosen: Works, costs: ModelCosts) -> "Saved":
        """Compare two ways of a query."""
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


def _saving(saving: Saving, chosen: Works, costs: ModelCosts) -> dict[str, Any]:
    """Return what was saved, null where it was not tried."""
    without = saving.without
    return {"name": saving.name, "saved": None if without is None else asdict(Saved.of(without, chosen, costs))}
