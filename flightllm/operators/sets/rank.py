"""Rank the values of a set by a criterion: `ai_rank(…, method => 'listwise')`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.functions.over_set import OverSet
from flightllm.functions.ranking import PAIR
from flightllm.operators.sets.asker import Asker, Texts
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.rank_forecast import methods_text
from flightllm.operators.sets.rank_records import Records
from flightllm.operators.sets.rank_select import Compare, Window, rank

_NO_ANSWER: Final = "no prompt about the value had a usable answer"


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return the rank of each value: 1 for the first, and 1 more for each row before it. Equal values share a rank.

    With `top`, or where a LIMIT above the call needs few rows, the values after these share the next rank.
    """
    over, needed = asker.call.over, asker.call.first_rows
    if over is None:
        raise InternalError(f"{asker.call.text} is not over a set")
    count, window = len(values.tuples), int(over.option("window"))
    given = over.option("top")
    backwards = needed is not None and needed < 0 and given is None
    limit = None if needed is None or (needed < 0 and not backwards) else abs(needed)  # the last rows lie behind `top`
    wanted = min(one for one in (count, given, limit) if one is not None)
    if asker.is_dry:
        asker.counters.note(0, 0, steps=methods_text(count, wanted, window))
    # a window that fails is cut in two, so its error must not end the query; a value without an answer does
    lenient = Asker(replace(asker.call, on_error="struct"), asker.runtime, asker.counters)
    records = Records([_shown(one, over) for one in values.tuples], lenient, over)
    compare: Compare = _turned(records) if backwards else records
    found = rank(count, wanted, window, compare)
    refusal = lenient.binding(over.questions[PAIR]).refusal
    if records.error is not None and refusal:
        return [Failure(refusal)] * count  # the few orders that are known would give wrong ranks
    return _ranks(values, list(found.first[:wanted]), found.unanswered, records.error, backwards=backwards)


def _ranks(
    values: SetValues, first: Sequence[int], unanswered: frozenset[int], error: str | None, *, backwards: bool
) -> list[Any]:
    """Return the rank of each value, where the places of the first values are known in their order."""
    weights = [0 if place in unanswered else int(weight) for place, weight in enumerate(values.weights)]
    total, before = sum(weights), 0
    ranks: dict[int, float] = {}
    for place in first:
        ranks[place] = 1.0 + (total - before - weights[place] if backwards else before)
        before += weights[place]
    other = 1.0 if backwards else 1.0 + before
    failure = Failure(error or _NO_ANSWER)
    return [failure if place in unanswered else ranks.get(place, other) for place in range(len(weights))]


def _turned(compare: Compare) -> Compare:
    """Return the comparison by which the last value is the first."""

    def turned(windows: Sequence[Window]) -> list[Sequence[int] | None]:
        return [None if order is None else list(reversed(order)) for order in compare(windows)]

    return turned


def _shown(values: Texts, over: OverSet[AICall]) -> str:
    """Return a record as prompts show it: its only field, or a line for each field that has a value."""
    fields: Sequence[str] = over.option("fields")
    if len(fields) == 1:
        return str(values[0])
    return "\n".join(f"{name}: {value}" for name, value in zip(fields, values, strict=True) if value is not None)
