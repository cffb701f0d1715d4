"""Provide the engines for a query's calls, predict their work, and keep them within the session's budget."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import structlog

from flightllm.access.ledger import Ledger
from flightllm.access.store import Allowance
from flightllm.common.cached import cached_property
from flightllm.config.session_settings import Settings
from flightllm.datafusion.run import Batches
from flightllm.engines.extras import extras_of
from flightllm.engines.observed import Learned, ObservedEngine
from flightllm.engines.predict import PromptTokens, tokenizing
from flightllm.engines.registry import OpenModel, without_section
from flightllm.errors import AICallError, BudgetExceededError
from flightllm.execution.context import Services
from flightllm.execution.estimate import DRAWS, MOST_PROMPTS, MOST_SECONDS, DryRun
from flightllm.execution.plan_texts import late_fits
from flightllm.functions.call import EMBEDDING, MODEL, SEARCH, AICall, binding_of, model_of
from flightllm.learning.learned import LateFit
from flightllm.llm.batch_endpoint import batch_endpoint, batch_prices
from flightllm.llm.cost import Costs, ModelCosts, Prices, Work
from flightllm.llm.engine import Engine
from flightllm.observe.query_record import COUNTERS, QueryRecord
from flightllm.operators.answer_store import AnswerStore
from flightllm.operators.budget import Account, RequestBudget, check_estimate, check_prices
from flightllm.operators.call_context import ModelBinding, Precedence
from flightllm.operators.cascade import question_of
from flightllm.operators.collecting import Collecting
from flightllm.operators.in_flight import InFlightRequests
from flightllm.operators.read_through import Answers, ReadThroughCache
from flightllm.operators.temporary_answers import PRIVATE_HELD, TemporaryAnswers
from flightllm.plan.figures import Figures
from flightllm.quality.forecast import Seen
from flightllm.sql.calls import Extracted

_log = structlog.get_logger(__name__)
_FEWEST_PROMPTS = 1_000
"""The prompts that an estimate tries even if the limit on calls is lower: the error then has the right number."""
_TEMPLATE_TOKENS = 64
"""An upper bound of the number of tokens that an endpoint's chat template adds to a prompt."""

FIT: Final = "the fit of labels"
"""The name of the operator that asks about labelled rows, in EXPLAIN and in records."""


class AskingQuery(Protocol):
    """A planned query that has AI calls."""

    services: Services
    settings: Settings

    @property
    def calls(self) -> Collection[AICall]:
        """Return the query's AI calls."""

    def run_on(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> Batches:
        """Run it on the given engines and answers, by `AICall.binding`."""


@contextmanager
def models_of(query: AskingQuery, cancelled: Callable[[], bool]) -> Iterator[Mapping[str | None, OpenModel]]:
    """Open the language models of a query's calls; they stay open until the block ends.

    Raises:
        EngineError: a model was dropped since the query was planned, or cannot be opened.
        AICallError: a model cannot answer a call of this form.
        CancelledError: `cancelled()` turned true before all models were open.
    """
    names = {model_of(binding) for binding in _bindings(query) if binding not in {EMBEDDING, SEARCH}}
    with query.services.engines.using(names, cancelled) as models:
        _check_forms(query, models)
        yield models


def _check_forms(query: AskingQuery, models: Mapping[str | None, OpenModel]) -> None:
    """Check that each model can answer the calls that name it; see `DecisionsEngine.refusal`."""
    for call in query.calls:
        if call.backend != MODEL:
            continue
        engine = models[call.model].engine
        if (why := extras_of(engine).refusal(call.parameters)) is not None:
            raise AICallError(f"{call.text}: the engine {engine.name} cannot answer it: {why}")


def _bindings(query: AskingQuery) -> set[str]:
    """Return the bindings of a query's calls and of their proxies."""
    own = {call.binding for call in query.calls}
    if any(one is not None and one.embeds for call in query.calls for one in (call.over, call.join)):
        own.add(EMBEDDING)
    return own.union(*(call.promise.proxies for call in query.calls if call.promise is not None and call.cascades))


def prompt_tokens(models: Mapping[str | None, OpenModel]) -> Mapping[str | None, PromptTokens]:
    """Return a token counter for each model."""
    return {name: PromptTokens(model.engine) for name, model in models.items()}


def costs_of(models: Mapping[str | None, OpenModel]) -> ModelCosts:
    """Return the costs of work, by model."""
    return ModelCosts({name: model.costs for name, model in models.items()})


def predict(
    query: AskingQuery,
    models: Mapping[str | None, OpenModel],
    cancelled: Callable[[], bool],
    tokens: Mapping[str | None, PromptTokens] | None = None,
    most_seconds: float = MOST_SECONDS,
    most_prompts: int = MOST_PROMPTS,
    draws: int = DRAWS,
) -> Figures:
    """Predict the work of a query's models by a run of the query on predicted answers; see `DryRun`.

    Predictions of the same query can share `tokens`.
    """
    services = query.services
    reads = query.settings.cache and query.settings.dedup and query.settings.optimizer
    dry = DryRun(
        query.calls,
        models,
        services.cache if reads else None,
        tokens or prompt_tokens(models),
        _others(query, services.cache if reads else ReadThroughCache(None), InFlightRequests()),
        services.rights.principal.name,
        services.rights.answers,  # a cached answer shows that somebody asked before; so does a real run's price
        most_seconds=most_seconds,
        most_prompts=most_prompts,
        draws=draws,
    )
    return dry.figures(lambda record, bindings: query.run_on(bindings, record), cancelled)


@contextmanager
def real_bindings(
    query: AskingQuery, record: QueryRecord, fits: Sequence[LateFit] = ()
) -> Iterator[Mapping[str, ModelBinding]]:
    """Yield the server's engines and answers by `AICall.binding`. Models' calls count against the session's budget.

    Make `fits` first; their calls count against the same budget. The estimate, which has them too, comes before them.

    Raises:
        BudgetExceededError: the estimate for the query is above a limit, or the day's budget is spent.
        EngineError: a model was dropped since the query was planned, or cannot be opened.
    """
    settings = query.settings
    if fits:
        with models_of(query, record.cancelled.is_set) as models:
            _check_limits(query, settings, models, record)
        make_fits(fits, settings, record)
        settings = replace(settings, **left_of(settings, record))
    with (
        models_of(query, record.cancelled.is_set) as models,
        _answers(query.services, query.settings) as (cache, in_flight),
    ):
        rights, collecting = query.services.rights, query.services.collecting
        if collecting is None and not fits:  # the handle of a deferred statement has checked the estimate
            _check_limits(query, settings, models, record)
        account = _account(query, settings, models)
        budgets = {
            name: None if account is None else _budget(account, model, _prices(model, collecting))
            for name, model in models.items()
        }
        precedence = Precedence(query.settings.priority)
        asked = {
            binding_of(name): ModelBinding(
                ObservedEngine(
                    model.engine if collecting is None else collecting.engine(model, rights.answers, budgets[name]),
                    learned := model.learned.of(rights.principal.name),
                    model.costs if collecting is None else Costs(),  # a pass tells nothing about the speed
                    model.health,
                    str if name is None else without_section,
                ),
                cache,
                in_flight,
                model.window,
                budgets[name] if collecting is None else None,  # known answers take nothing
                rights.answers,
                rights.principal.tenant,
                model.costs,
                precedence,
                model.replicas,
                model.config.repair,
                model.prompt_format,
                rights.principal.name,
                partial(model.gives_probabilities, rights.principal.name),
                note_run=partial(_note_run, learned),
                collects=collecting is not None,
            )
            for name, model in models.items()
        }
        try:
            yield {**asked, **_others(query, cache, in_flight)}
        finally:
            if collecting is not None:
                collecting.leave()
            if account is not None:
                account.close()
    if collecting is not None:
        collecting.finish()
    if account is not None and account.refusal is not None:
        record.warn(f"{account.refusal}; the other rows have NULL")
        _log.warning("budget spent, the other rows have NULL", query_id=record.query_id, reason=account.refusal)


class FirstFits:
    """The fits of one query. A real run makes them before; a prediction asks what they would ask.

    A prediction leaves out the vectors of the labelled rows, because it must not ask the embedding model for them.
    """

    def __init__(self, extracted: Extracted, settings: Settings) -> None:
        """Take the query, and its settings."""
        self._extracted, self._settings = extracted, settings

    @property
    def due(self) -> list[LateFit]:
        """Return the fits that are not made yet."""
        return late_fits(self._extracted)

    @property
    def calls(self) -> Sequence[AICall]:
        """Return the calls about labelled rows.

        Raises:
            FlightLLMError: the labelled rows cannot be asked about.
        """
        return [call for query in self._queries for call in query.calls]

    @cached_property
    def _queries(self) -> Sequence[AskingQuery]:
        settings = replace(self._settings, quality=None)
        return [query for fit in self.due if (query := fit.asked(settings)) is not None]

    def predict(self, bindings: Mapping[str, ModelBinding], record: QueryRecord) -> None:
        """Ask about the labelled rows of fits that are not made yet, and forget the answers.

        Raises:
            FlightLLMError: the labelled rows cannot be asked about.
        """
        if not self.due:
            return
        if not (self._settings.cache and self._settings.dedup):  # the rows of the query then get answers of their own
            own = ReadThroughCache(None), InFlightRequests()
            bindings = {name: replace(one, cache=own[0], in_flight=own[1]) for name, one in bindings.items()}
        for query in self._queries:
            with closing(query.run_on(bindings, record.inner("", FIT))) as batches:
                for _ in batches:
                    pass


def make_fits(fits: Sequence[LateFit], settings: Settings, record: QueryRecord) -> None:
    """Make fits to labels within the rest of a statement's limits.

    Raises:
        FlightLLMError: the labels teach no filter, or the limits leave too little.
    """
    for fit in fits:
        fit.run(replace(settings, **left_of(settings, record), quality=None, on_budget="fail"), record)


def left_of(settings: Settings, record: QueryRecord) -> dict[str, Any]:
    """Return the limits on calls, tokens and cost, less what the statement has used so far."""
    used = [site for site in record.call_rows() if site["backend"] == MODEL]
    calls = sum(site["calls"] for site in used)
    tokens = sum(site["prompt_tokens"] + site["completion_tokens"] for site in used)
    cost = sum(record.price(site["model"], {name: site[name] for name in COUNTERS}) or 0.0 for site in used)
    return _less(settings, {"max_calls": calls, "max_tokens": tokens, "max_cost": cost})


def _less(settings: Settings, used: Mapping[str, float]) -> dict[str, Any]:
    """Return the limits of a session less what is used."""
    given = {name: getattr(settings, name) for name in used}
    return {name: max(0, most - used[name]) for name, most in given.items() if most is not None}


def _note_run(learned: Learned, call: AICall, seen: Seen) -> None:
    learned.note_run(question_of(call), seen)


def _account(query: AskingQuery, settings: Settings, models: Mapping[str | None, OpenModel]) -> Account | None:
    """Return the account of the session's limits and the user's spending; None if there are no limits and no ledger.

    Raises:
        BudgetExceededError: the day's budget is spent.
    """
    limits, services, fail = _limits(settings), query.services, settings.on_budget == "fail"
    if services.collecting is None:
        ledger = _ledger(query)
        return None if limits == Allowance() and ledger is None else Account(limits, ledger=ledger, fail=fail)
    ledger = services.access.ledger(services.rights.principal)  # a pass that asks nothing needs no budget
    if limits == Allowance() and ledger is None:
        return None
    works = {name: work for name, work in services.collecting.spent().items() if name in models}
    known = {name: _prices(models[name], services.collecting) for name in works}
    cost = sum(prices.price(works[name]) for name, prices in known.items() if prices is not None)
    return Account(limits, ledger=ledger, fail=fail, spent=sum(works.values(), Work()), cost=cost)


def _check_limits(
    query: AskingQuery, settings: Settings, models: Mapping[str | None, OpenModel], record: QueryRecord
) -> None:
    """Check that the estimate for the query is within the session's limits.

    Raises:
        BudgetExceededError: the estimate is above a limit, or the day's budget is spent.
    """
    limits = checked_limits(query, settings, models)
    if limits == Allowance():
        return
    enough = MOST_PROMPTS if limits.calls is None else min(MOST_PROMPTS, max(limits.calls + 1, _FEWEST_PROMPTS))
    estimate = predict(query, models, record.cancelled.is_set, most_prompts=enough)
    cost = costs_of(models).price(estimate.works) or 0.0
    check_estimate(limits, estimate.work, cost, is_whole=estimate.is_whole)


def checked_limits(query: AskingQuery, settings: Settings, models: Mapping[str | None, OpenModel]) -> Allowance:
    """Return the session's limits, with prices for each limit that needs them.

    Raises:
        BudgetExceededError: a model lacks prices, or the day's budget is spent.
    """
    _ledger(query)
    limits = _limits(settings)
    if limits != Allowance():
        for name, model in models.items():
            check_prices(limits, model.costs.prices, name)
    return limits


def _limits(settings: Settings) -> Allowance:
    return Allowance(settings.max_calls, settings.max_tokens, settings.max_cost)


def _ledger(query: AskingQuery) -> Ledger | None:
    """Return the user's spending.

    Raises:
        BudgetExceededError: the day's budget is spent.
    """
    ledger = query.services.access.ledger(query.services.rights.principal)
    if ledger is not None and ledger.refusal is not None:
        raise BudgetExceededError(f"not run, the day's budget is spent: {ledger.refusal}")
    return ledger


def _prices(model: OpenModel, collecting: Collecting | None) -> Prices | None:
    """Return a model's prices, at its batch endpoint if the query's prompts go there."""
    prices = model.costs.prices
    endpoint = None if collecting is None else batch_endpoint(model.engine)
    return prices if prices is None or endpoint is None else batch_prices(prices, endpoint)


def _budget(account: Account, model: OpenModel, prices: Prices | None) -> RequestBudget:
    reasoning, engine, own = model.config.reasoning, model.engine, extras_of(model.engine)
    most = _most_tokens(engine)
    return RequestBudget(account, prices, most, engine.count_tokens, reasoning, own.most_thought, own.further_tokens)


def _others(query: AskingQuery, cache: Answers, in_flight: InFlightRequests) -> dict[str, ModelBinding]:
    """Return the binding of the embedding model, by its name; an empty dict if the query does not call it.

    A join that can do without the model learns at its first text that the model is missing.
    """
    needed = EMBEDDING in _bindings(query)
    if not needed and not any(call.join is not None and call.join.can_embed for call in query.calls):
        return {}
    backends, reader = query.services.backends, query.services.rights.answers
    engine, window = backends.late_embeddings(checked=needed)
    return {EMBEDDING: ModelBinding(engine, cache, in_flight, window, reader=reader, costs=backends.costs)}


@contextmanager
def _answers(services: Services, settings: Settings) -> Iterator[tuple[AnswerStore, InFlightRequests]]:
    """Yield the shared answer cache and prompts in flight, or private ones if the session's settings ask for that."""
    if settings.cache and settings.dedup:
        yield services.cache, services.in_flight
        return
    with closing(TemporaryAnswers(most_held=PRIVATE_HELD)) as cache:
        yield cache, InFlightRequests()


def _most_tokens(engine: Engine) -> Callable[[str], int]:
    """Return a function for the most tokens of a prompt: their exact number, or one token per byte."""
    exact = tokenizing(engine)
    if exact is not None:
        return lambda prompt: len(exact.token_ids([prompt])[0])
    return lambda prompt: len(prompt.encode("utf-8", "surrogatepass")) + _TEMPLATE_TOKENS
