"""What a query's calls run on, what they will take, and what they may."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Protocol

import structlog

from flightllm.ai import EMBEDDING, MODEL, AICall
from flightllm.dry_run import MOST_PROMPTS, MOST_SECONDS, DryRun
from flightllm.llm.base import Engine
from flightllm.llm.predict import PromptTokens, tokenizing
from flightllm.operators.backing import Backing
from flightllm.operators.budget import Budget, Limits, check_estimate, check_prices
from flightllm.operators.cache import AnswerCache
from flightllm.operators.flights import Flights
from flightllm.operators.observed import ObservedEngine
from flightllm.operators.overlay import Answers, Overlay
from flightllm.operators.relational import Batches
from flightllm.plan.figures import Figures
from flightllm.services import Services
from flightllm.settings import Settings
from flightllm.system import QueryRecord

_log = structlog.get_logger(__name__)
_TEMPLATE_TOKENS = 64
"""More than what an endpoint puts around a prompt."""


class AskingQuery(Protocol):
    """A planned query that has AI calls."""

    services: Services
    settings: Settings

    @property
    def calls(self) -> Collection[AICall]:
        """Return its AI calls."""

    def run_on(self, backings: Mapping[str, Backing], record: QueryRecord) -> Batches:
        """Run it on the given engines and answers, by backend."""


def predict(
    query: AskingQuery,
    cancelled: Callable[[], bool],
    tokens: PromptTokens | None = None,
    most_seconds: float = MOST_SECONDS,
    most_prompts: int = MOST_PROMPTS,
) -> Figures:
    """Return what a query would take, by a run on predicted answers; see `DryRun`.

    `tokens` may be shared by predictions of the same query.
    """
    services = query.services
    reads = query.settings.cache and query.settings.dedup and query.settings.optimizer
    dry = DryRun(
        query.calls,
        services.engine,
        services.learned,
        services.cache if reads else None,
        services.config.engine.max_in_flight,
        tokens or PromptTokens(services.engine),
        _others(query, services.cache if reads else Overlay(None), Flights()),
        most_seconds=most_seconds,
        most_prompts=most_prompts,
    )
    return dry.figures(lambda record, backings: query.run_on(backings, record), cancelled)


@contextmanager
def real_backings(query: AskingQuery, record: QueryRecord) -> Iterator[Mapping[str, Backing]]:
    """Give the server's engines and answers by backend, the model within the budget of the session.

    Raises:
        BudgetExceededError: the query would take more than it may.
    """
    services, settings = query.services, query.settings
    limits = Limits(settings.max_calls, settings.max_tokens, settings.max_cost)
    budget = None
    if limits:
        prices = services.costs.prices
        check_prices(limits, prices)
        enough = MOST_PROMPTS if limits.calls is None else min(MOST_PROMPTS, limits.calls + 1)
        estimate = predict(query, record.cancelled.is_set, most_prompts=enough)
        check_estimate(limits, estimate.work, prices)
        counting = services.engine
        budget = Budget(
            limits, prices, _most_tokens(counting), counting.count_tokens, fail=settings.on_budget == "fail"
        )
    engine = ObservedEngine(services.engine, services.learned, services.costs)
    window = services.config.engine.max_in_flight
    with _answers(services, settings) as (cache, flights):
        yield {MODEL: Backing(engine, cache, flights, window, budget), **_others(query, cache, flights)}
    if budget is not None and budget.refusal is not None:
        record.warn(f"{budget.refusal}; the other rows have NULL")
        _log.warning("budget spent, the other rows have NULL", query_id=record.query_id, reason=budget.refusal)


def _others(query: AskingQuery, cache: Answers, flights: Flights) -> dict[str, Backing]:
    """Return what answers the query's calls of the embedding model, if it has any."""
    if all(call.backend != EMBEDDING for call in query.calls):
        return {}
    engine, window = query.services.backends.embeddings()
    return {EMBEDDING: Backing(engine, cache, flights, window)}


@contextmanager
def _answers(services: Services, settings: Settings) -> Iterator[tuple[AnswerCache, Flights]]:
    """Give the shared answers and prompts in flight, or some for this query alone where the session wants it so."""
    if settings.cache and settings.dedup:
        yield services.cache, services.flights
        return
    with closing(AnswerCache(None)) as cache:
        yield cache, Flights()


def _most_tokens(engine: Engine) -> Callable[[str], int]:
    """Return how to tell the most tokens that a prompt can have: what they are, or one for each byte."""
    exact = tokenizing(engine)
    if exact is not None:
        return lambda prompt: len(exact.token_ids([prompt])[0])
    return lambda prompt: len(prompt.encode("utf-8", "surrogatepass")) + _TEMPLATE_TOKENS
