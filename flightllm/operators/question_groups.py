"""Find the calls of a pass that can share requests, and plan by a sample of rows which of them do."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from flightllm.config.session_settings import AUTO_ROWS, Settings
from flightllm.engines.extras import extras_of
from flightllm.functions.call import AICall
from flightllm.llm.engine import Engine
from flightllm.operators.call_context import CallSite, ModelBinding, Ranking
from flightllm.operators.question_packs import kind_of, why_apart
from flightllm.operators.question_plan import QuestionPlan
from flightllm.operators.question_prices import QuestionPrices
from flightllm.operators.rows import Response, given_fields, read_answer
from flightllm.operators.sample_answers import sample_site
from flightllm.plan.stages import Condition, StageCall

_PRICED: Final = 32
"""The sampled rows by which prices are compared."""


@dataclass(frozen=True, slots=True)
class Group:
    """Calls of a pass that can share requests, and the most questions of a request, or `AUTO_ROWS`."""

    calls: tuple[int, ...]
    most: int


def joining(
    calls: Sequence[StageCall], together: Sequence[int], binding: ModelBinding, settings: Settings
) -> tuple[list[Group], dict[int, str]]:
    """Return the groups of calls that can share requests, and why each other call cannot, where several are wished.

    `together` has the number of rows that share a request, by call.
    """
    counts = [call.ai.questions_per_request or settings.questions_per_request for call in calls]
    if all(count == 1 for count in counts) or len(calls) < 2:
        return [], {}
    if extras_of(binding.engine).joins_questions:
        return [], dict.fromkeys(range(len(calls)), "one after another: the endpoint takes several questions by itself")
    probable = binding.has_probabilities() and extras_of(binding.engine).gives_probabilities
    why = {
        place: "questions_per_request is 1"
        if counts[place] == 1
        else why_apart(call.ai, together=rows, probable=probable, sampled=counts[place] == AUTO_ROWS)
        for place, (call, rows) in enumerate(zip(calls, together, strict=True))
    }
    if binding.collects or settings.delivery == "batch":
        why = dict.fromkeys(why, "a batch endpoint gets each question by itself")
    alike: dict[Hashable, list[int]] = defaultdict(list)
    for place, reason in why.items():
        if not reason:
            call, auto = calls[place], counts[place] == AUTO_ROWS
            key = call.arguments[: len(call.ai.fields)], call.ai.fields, call.when, kind_of(call.ai), auto
            alike[key].append(place)
    groups = [
        Group(tuple(places), min(counts[place] for place in places)) for places in alike.values() if len(places) > 1
    ]
    joined = {place for group in groups for place in group.calls}
    other = "no other call has the same fields and options"
    return groups, {
        place: f"one after another: {reason or other}" for place, reason in why.items() if place not in joined
    }


def plan_questions(
    groups: Sequence[Group],
    sites: Sequence[CallSite],
    sample: Callable[[int], Sequence[tuple[str | None, ...]]],
    binding: ModelBinding,
    known: float,
    rows: int,
) -> list[QuestionPlan]:
    """Return the plans of groups of calls.

    `sample` returns the values of a call's fields in some rows, and `known` is the share of their tokens that
    neighbouring rows share. A group without rows has no plan.
    """
    plans = []
    for group in groups:
        places = group.calls
        site = sample_site(sites[places[0]])
        named = site.named(site.order)
        given = (given_fields(named, values) for values in list(sample(places[0]))[:_PRICED])
        fields = [one for one in given if one is not None]
        if fields:
            prices = QuestionPrices(sites, binding.engine, binding.costs, fields, known)
            told = [sites[place].counters for place in places]

            def tell(text: str, told: Sequence[Any] = told) -> None:
                for counters in told:
                    counters.note(0, 0, questions=text)

            most, auto = group.most or len(places), group.most == AUTO_ROWS
            plans.append(QuestionPlan(frozenset(places), most, prices, rows, tell, auto))
    return plans


def note_likely(ranking: Ranking, sites: Sequence[CallSite], width: int, engine: Engine) -> None:
    """Note in a ranking the shares of rows that its filters and guards kept in earlier queries.

    A filter or guard counts if its condition is the answer of one call. `width` is the column of the first call.
    """
    for number, step in enumerate(ranking.steps):
        if step.condition is not None and (share := _learned(step.condition, sites, width, engine)) is not None:
            ranking.likely[number] = share
    for place, site in enumerate(sites):
        if site.guard is not None:
            found = _learned(site.guard, sites, width, engine)
            ranking.guarded[place] = 0.5 if found is None else found


def _learned(condition: Condition, sites: Sequence[CallSite], width: int, engine: Engine) -> float | None:
    """Return the share of earlier answers for which a condition was true; None where no answers tell it."""
    if condition.plan is not None or len(condition.reads) != 1:
        return None
    place = condition.reads[0] - width
    call = sites[place].ai if 0 <= place < len(sites) else None
    if call is None or not pa.types.is_boolean(call.type):
        return None
    asked = call.function, call.instruction, call.parameters
    return extras_of(engine).answer_share(asked, partial(_is_yes, call))


def _is_yes(call: AICall, text: str) -> bool:
    return read_answer(call, Response(text)).value is True
