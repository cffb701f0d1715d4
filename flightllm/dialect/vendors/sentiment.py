"""Rewrite Snowflake's sentiment: a number from -1 to 1, or one word for each of several aspects of a text."""

import json
from collections.abc import Iterator

from flightllm.common.names import quoted
from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import VendorCall, find_calls
from flightllm.dialect.vendors.objects import Value, constant, elements
from flightllm.dialect.vendors.paths import steps_after
from flightllm.dialect.vendors.pieces import around, written
from flightllm.sql.literals import text_literal

_NUMBER = "cortex.sentiment"
_BY_ASPECT = ("ai_sentiment", "cortex.ai_sentiment", "cortex.entity_sentiment")
_MOODS = ("positive", "negative", "neutral", "mixed", "unknown")
_QUESTION = "What does the text say of each aspect? Answer unknown for an aspect that it does not mention"


def has_sentiment(call: VendorCall) -> bool:
    """Return whether this module rewrites a call."""
    return (call.name == _NUMBER and len(call.arguments) == 1) or bool(_aspects(call))


def sentiment(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `AI_SENTIMENT(body, ['price'])` as one call of `ai_gen` with a field for each aspect.

    The model reads a text once, as the equal calls in the object are one. The sentiment of NULL is NULL.

    Raises:
        SqlError: the text contains a call, or the path leads elsewhere.
    """
    text = Value(call.arguments[0].first, call.arguments[0].last)
    if call.name == _NUMBER:
        yield from around(call, ["ai_score('How positive is it?', ", text, ", low => -1, high => 1)"])
        return
    names = ["overall", *_aspects(call)]
    moods = {"type": "string", "enum": _MOODS}
    schema = {"type": "object", "properties": dict.fromkeys(names, moods), "required": names}
    closed = f", response_format => {text_literal(json.dumps(schema, ensure_ascii=False))})"
    opened = f"ai_gen('{_QUESTION}', text_ => "
    steps, end = steps_after(call, call.closing + 1)
    tokens = call.source.tokens
    if (name := _chosen(names, steps)) is not None:
        yield Edit(call.start, tokens[text.first].start, opened)
        yield Edit(tokens[text.last - 1].end, tokens[end - 1].end, f"{closed}.{quoted(name)}")
        return
    if any(text.first <= one.first < text.last for one in find_calls(call.source)):
        raise call.error("aspects of a text that a call returns: compute the text in a subquery")
    asked = f"{opened}{written(call, text)}{closed}"
    found = [f"{{'name': {text_literal(one)}, 'sentiment': {asked}.{quoted(one)}}}" for one in names]
    whole, known = f"[{', '.join(found)}]", f"({written(call, text)}) IS NOT NULL"
    if steps and [str(step).lower() for step in steps] != ["categories"]:
        raise call.error("its path must be :categories, or :categories[0]:sentiment with another number")
    value = whole if steps else f"{{'categories': {whole}}}"
    yield Edit(call.start, tokens[end - 1].end, f"(CASE WHEN {known} THEN {value} END)")


def _aspects(call: VendorCall) -> list[str]:
    """Return the aspects that a call names, at most 10; an empty list for another call."""
    given = call.arguments[1] if len(call.arguments) == 2 and call.name in _BY_ASPECT else None
    listed = None if given is None else elements(call.source, given.first, given.last)
    names = [constant(call.source, one.first, one.last) for one in listed or ()]
    texts = [name for name in names if isinstance(name, str) and name.strip()]
    return texts if len(texts) == len(names) == len({*texts, "overall"}) - 1 else []


def _chosen(names: list[str], steps: list[str | int]) -> str | None:
    """Return the aspect whose sentiment a path such as `:categories[1]:sentiment` leads to."""
    match [step.lower() if isinstance(step, str) else step for step in steps]:
        case ["categories", int(place), "sentiment"] if place < len(names):
            return names[place]
        case _:
            return None
