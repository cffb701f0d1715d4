"""Ask a proxy the question of a call with a promise, and read its probabilities as scores."""

from dataclasses import replace
from typing import Any

import pyarrow as pa

from flightllm.functions.call import MODEL, AICall
from flightllm.functions.confidence import all_known, answer_alone, split
from flightllm.llm.engine import Choice


def options_of(call: AICall) -> tuple[str, ...]:
    """Return the options among which a call chooses; empty for other calls."""
    constraint = call.parameters.constraint
    return constraint.options if isinstance(constraint, Choice) else ()


def values_of(call: AICall) -> list[Any]:
    """Return the distinct values of a call's options, in their order.

    Options of the same value count together. For example, `ai_score(…) >= 7` has the values False and True.
    """
    return list(dict.fromkeys(call.parse(option) for option in options_of(call)))


def scoring(call: AICall, model: str | None) -> AICall:
    """Return the same question to another model, whose value is the list of probabilities of `values_of(call)`.

    A model without probabilities gives the value that it chose 1, and the others 0. The answers have the keys of those
    to the same call with `confidence => true`.
    """
    options = options_of(call)
    values = values_of(call)
    places = [values.index(call.parse(option)) for option in options]
    plain = not call.parameters.probability

    def parse(text: str) -> list[float]:
        chosen, probabilities = split(text)
        value = call.parse(answer_alone(text) if plain else text)
        found = [0.0] * len(values)
        if all_known(probabilities, len(options)):
            for place, probability in zip(places, probabilities, strict=True):
                found[place] += probability
        else:
            found[places[options.index(chosen)] if chosen in options else values.index(value)] = 1.0
        return found

    return replace(
        call,
        model=model,
        backend=MODEL,
        parameters=replace(call.parameters, probability=True),
        output=pa.list_(pa.float64()),
        parse=parse,
        reading="scores",
        on_error="struct",
        labelled=None,
        by_rows=False,
        uncalibrated="",
        promise=None,
    )
