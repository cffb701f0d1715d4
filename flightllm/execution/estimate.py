"""Run a query's relational work with predicted answers, to estimate its calls before it makes any."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flightllm.datafusion.run import Batches
from flightllm.engines.observed import Asked
from flightllm.engines.predict import CallSiteForecast, EnoughError, PredictingEngine, PromptTokens
from flightllm.engines.registry import OpenModel
from flightllm.errors import CancelledError
from flightllm.functions.call import AICall, binding_of
from flightllm.observe.query_record import CancelToken, QueryRecord
from flightllm.operators.call_context import ModelBinding
from flightllm.operators.cascade import question_of, targets_of
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.read_through import Peekable, ReadThroughCache
from flightllm.plan.figures import COUNTED, CallFigures, Figures, average
from flightllm.quality.likely_first import Effort

MOST_PROMPTS = 30_000
"""The most prompts that a prediction tries. For further prompts, it extrapolates from them."""
MOST_SECONDS = 20.0
DRAWS = 4
"""How often a query of few prompts is tried; each try draws other answers."""


Run = Callable[[QueryRecord, Mapping[str, ModelBinding]], Batches]
"""Runs a query with a model binding for each backend."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The settings that the predictions of one query share. One thread uses it."""

    calls: Collection[AICall]
    """The query's calls."""
    models: Mapping[str | None, OpenModel]
    """The language models of the calls."""
    known: Peekable | None
    """Cached answers, which cost nothing; None if the session does not read the cache."""
    tokens: Mapping[str | None, PromptTokens]
    """The tokens of prompts, by model."""
    others: Mapping[str, ModelBinding]
    """The binding of the embedding model. Its calls are cheap, so the estimate makes them and caches their answers."""
    user: str
    """The user whose earlier answers predict the next answers."""
    reader: str = ""
    """The user whose cached answers can be read; see `ModelBinding.reader`."""
    most_prompts: int = MOST_PROMPTS
    most_seconds: float = MOST_SECONDS
    draws: int = DRAWS
    """How often the query is tried at most."""

    def figures(self, run: Run, cancelled: Callable[[], bool]) -> Figures:
        """Run a query on predicted answers and return its figures, without any call of the language model.

        With too many prompts, or after too long a time, the figures are extrapolated from the prompts tried. If answers
        decide which prompts follow, a few prompts can be an unlucky sample; so the query runs several times.

        Raises:
            CancelledError: `cancelled()` turned true.
        """
        started = time.monotonic()
        deadline = started + self.most_seconds
        tried = [self._once(run, cancelled, deadline, 0.0)]
        # the middle turn is first: it gives most prompts another answer, so it shows best whether answers matter
        for turn in sorted(range(1, self.draws), key=lambda one: abs(2 * one - self.draws)):
            late = time.monotonic() - started > self.most_seconds / self.draws
            if late or tried[0].work.calls * self.draws > MOST_PROMPTS:
                break
            tried.append(self._once(run, cancelled, deadline, turn / self.draws))
            if tried[1].calls_per_site == tried[0].calls_per_site:  # the answers do not affect the calls
                break
        return average(tried)

    def _asked_share(self, model: str | None) -> Callable[[AICall, int], float | None]:
        """Return how a model's share of prompts is predicted, for a call with a promise: by its last run."""
        learned = self.models[model].learned.of(self.user)
        return lambda call, units: learned.share_of_run(question_of(call), units, targets_of(call))

    def _scored_shares(self, model: str | None) -> Callable[[AICall], tuple[float, ...]]:
        """Return how the proxies' shares of prompts are predicted, for filters with one promise: by their last run."""
        learned = self.models[model].learned.of(self.user)
        return lambda call: learned.scored_in_run(question_of(call))

    def _first_effort(self, model: str | None) -> Callable[[AICall, int, int, float], Effort | None]:
        """Return how the calls of a promise under a LIMIT are predicted: by its last run."""
        learned = self.models[model].learned.of(self.user)
        return lambda call, units, rows, price: learned.first_of_run(question_of(call), units, rows, price)

    def _once(
        self,
        run: Run,
        cancelled: Callable[[], bool],
        deadline: float,
        turn: float,
    ) -> Figures:
        record = QueryRecord("", "", _Until(deadline, cancelled))
        usual = {(c.function, c.instruction, c.parameters): c.usual.of for c in self.calls if c.usual is not None}
        engines = {
            name: PredictingEngine(
                m.engine, m.learned.of(self.user), m.window, self.tokens[name], self.most_prompts, turn, usual
            )
            for name, m in self.models.items()
        }
        known, in_flight = ReadThroughCache(self.known), InFlightRequests()
        asked = {
            binding_of(name): ModelBinding(
                engine,
                known,
                in_flight,
                self.models[name].window,
                reader=self.reader,
                user=self.user,
                costs=self.models[name].costs,
                repair=self.models[name].config.repair,
                prompt_format=self.models[name].prompt_format,
                has_probabilities=partial(self.models[name].gives_probabilities, self.user),
                asked_share=self._asked_share(name),
                scored_shares=self._scored_shares(name),
                first_effort=self._first_effort(name),
                guessed=engine.guessed,
            )
            for name, engine in engines.items()
        }
        rows = 0
        stopped = False
        try:
            with closing(run(record, {**self.others, **asked})) as batches:
                for batch in batches:
                    rows += batch.num_rows
        except (EnoughError, CancelledError):
            if cancelled():
                raise
            stopped = True
        sites = {name: engine.sites for name, engine in engines.items()}
        figures = _figures(record.call_rows(), self.calls, sites, rows, stopped=stopped)
        return figures if stopped else replace(figures, parts=record.part_rows())


class _Until(CancelToken):
    """A stop token that is set once a query is cancelled, or its time is over."""

    def __init__(self, deadline: float, cancelled: Callable[[], bool]) -> None:
        super().__init__()
        self._deadline = deadline
        self._cancelled = cancelled

    def is_set(self) -> bool:
        """Return whether to stop."""
        return self._cancelled() or time.monotonic() > self._deadline


def _figures(
    sites: Sequence[Mapping[str, Any]],
    calls: Collection[AICall],
    asked: Mapping[str | None, Mapping[Asked, CallSiteForecast]],
    rows: int,
    *,
    stopped: bool,
) -> Figures:
    """Return the figures of a dry run's record, extrapolated from the prompts tried if the run was stopped."""
    notes = []
    scales = _scales(sites) if stopped else {}
    if stopped:
        tried = sum(site["calls"] for site in sites)
        there = sum(round(scales[site["operator"]] * site["calls"]) for site in sites)
        notes.append(
            f"figures are extrapolated from the first {tried:,} prompts to all, about {there:,};"
            " figures of operators that wait for these answers are missing"
        )
    found = tuple(_call(site, calls, asked.get(site["model"], {}), scales.get(site["operator"], 1.0)) for site in sites)
    if any(not call.learned and call.work.calls for call in found):
        notes.append(
            "answers are assumed for calls without known earlier answers: each answer is equally likely,"
            " and texts are as long as is usual for the function"
        )
    all_rows = round(rows * max(scales.values(), default=1.0))
    return Figures(all_rows, found, None, tuple(notes), is_whole=not stopped)


def _scales(sites: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return for each operator the ratio of its tuples to the tuples tried; at least 1."""
    gone: dict[str, int] = defaultdict(int)
    for site in sites:
        through = min(site["distinct_prompts"], site["calls"] + site["packed"] + site["cache_hits"])
        gone[site["operator"]] = max(gone[site["operator"]], through)
    return {s["operator"]: max(1.0, s["tuples"] / max(1, gone[s["operator"]])) for s in sites}


def _call(
    site: Mapping[str, Any], calls: Iterable[AICall], asked: Mapping[Asked, CallSiteForecast], scale: float
) -> CallFigures:
    """Return `scale` times the figures counted at a call site. A site can count rows before it counts their calls."""
    through = min(site["distinct_prompts"], site["calls"] + site["packed"] + site["cache_hits"]) / max(
        1, site["distinct_prompts"]
    )
    ahead = {"rows": through, "distinct_prompts": through} if scale > 1 else {}
    counts = {name: round(scale * ahead.get(name, 1.0) * site[name]) for name in COUNTED}
    if scale > 1:
        counts["rows"] = min(counts["rows"], max(site["rows"], site["input_rows"]))
    orders: Counter[tuple[str, ...]] = Counter()
    learned = False
    for ai in calls:
        if (ai.function, ai.text) != (site["function"], site["text"]):
            continue
        own = ai.function, ai.instruction, ai.parameters
        for (*same, fields), asking in asked.items():
            if tuple(same) == own and set(fields) <= set(ai.fields):
                orders.update(asking.orders)
                learned = learned or asking.learned
    return CallFigures(
        site["operator"],
        site["function"],
        site["text"],
        counts,
        orders.most_common(),
        learned,
        site["notes"],
        site["backend"],
        site["model"],
        site["promise"],
    )
