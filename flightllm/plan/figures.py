"""What the calls of a query take, predicted and actual, in one shape for texts and JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from flightllm.plan.cost import Costs, Work

COUNTED = (
    "rows",
    "distinct_prompts",
    "cache_hits",
    "calls",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "failed_rows",
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

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what tells it from other call sites."""
        return self.operator, self.function, self.text

    @property
    def work(self) -> Work:
        """Return what it asks of the language model."""
        if self.backend != "model":
            return Work()
        tokens = (self.counts[name] for name in ("prompt_tokens", "cached_tokens", "completion_tokens"))
        return Work(self.counts["calls"], *tokens)


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
        """Return what all calls ask of the language model."""
        return sum((call.work for call in self.calls), Work())

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
    without: Work | None


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


def document(explained: Explained, costs: Costs) -> dict[str, Any]:
    """Return all of it as what JSON can hold.

    Keys: `path`, `engine`, `rows`, `operators` (each with `operator` and `calls`), `total`, `savings`, `plan`, `notes`.
    A call has `answers` ('learned' or 'assumed'), `ordering`, `layout` and `field_orders`; what was saved is what the
    query would take without a rule, less what it takes. Figures come under `predicted` and, after ANALYZE, under
    `actual`; elsewhere `actual` is null. `prefix_hit_rate` is between 0 and 1; `price` is null where no prices are
    configured.
    """
    operators: dict[str, list[dict[str, Any]]] = {}
    for site, (call, actual) in enumerate(explained.pairs()):
        operators.setdefault(call.operator, []).append(
            {
                "call_site": site,
                "function": call.function,
                "text": call.text,
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
        "rows": {"predicted": predicted and predicted.rows, "actual": actual_all and actual_all.rows},
        "operators": [{"operator": name, "calls": calls} for name, calls in operators.items()],
        "total": {
            "predicted": predicted and _work(predicted.work, costs),
            "actual": actual_all and {**_work(actual_all.work, costs), "seconds": actual_all.seconds},
        },
        "savings": [_saving(saving, predicted.work, costs) for saving in explained.savings] if predicted else [],
        "plan": [{"title": title, "text": text} for title, text in explained.plan],
        "notes": explained.notes,
    }


def _counts(call: CallFigures, costs: Costs) -> dict[str, Any]:
    return {**{name: call.counts[name] for name in COUNTED}, **_rates(call.work, costs)}


def _work(work: Work, costs: Costs) -> dict[str, Any]:
    counts = {
        "calls": work.calls,
        "prompt_tokens": work.prompt_tokens,
        "cached_tokens": work.cached_tokens,
        "completion_tokens": work.completion_tokens,
    }
    return {**counts, **_rates(work, costs)}


def _rates(work: Work, costs: Costs) -> dict[str, Any]:
    return {"prefix_hit_rate": work.hit_rate, "seconds": costs.seconds(work), "price": costs.price(work)}


def _saving(saving: Saving, chosen: Work, costs: Costs) -> dict[str, Any]:
    """Return what was saved: figures without it less those with it, all null where it was not tried."""
    without = saving.without
    names = ("calls", "prompt_tokens", "computed_tokens", "completion_tokens", "seconds", "price")
    if without is None:
        return {"name": saving.name, "saved": None}
    price = None if costs.prices is None else costs.prices.price(without) - costs.prices.price(chosen)
    saved = (
        without.calls - chosen.calls,
        without.prompt_tokens - chosen.prompt_tokens,
        without.computed_tokens - chosen.computed_tokens,
        without.completion_tokens - chosen.completion_tokens,
        costs.seconds(without) - costs.seconds(chosen),
        price,
    )
    return {"name": saving.name, "saved": dict(zip(names, saved, strict=True))}
