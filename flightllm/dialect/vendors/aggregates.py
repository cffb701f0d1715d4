"""Rewrite aggregates over a model: the texts of a group become one text, which the model reads once."""

from collections.abc import Iterator

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import Value, constant
from flightllm.dialect.vendors.options import without_references
from flightllm.dialect.vendors.pieces import around
from flightllm.sql.literals import text_literal

NAMES = ("ai_agg", "ai.agg", "ai_summarize_agg")
_KNOWN = ("endpoint", "model", "input", "expr", "instruction", "task_description", "prompt", "connection_id")


def aggregate(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `AI_AGG(body, 'What is new?')` as `ai_gen('What is new?', texts => string_agg(body, …), …)`.

    A group that does not fit into the model's context is an error, as no row has an answer for a part of a group.

    Raises:
        SqlError: the instruction is not a text literal, or the call is a window function.
    """
    text = call.named("input", "expr") or call.positional(0)
    if text is None:
        raise call.error("it needs the text of each row: write ai_agg(text, 'instruction')")
    if call.source.is_word(call.closing + 1, "over", "filter", "within"):
        raise call.error(
            f"OVER and FILTER cannot follow it: group by the keys, and write {_advice(call, text)} in a subquery"
        )
    value = Value(text.first, text.last)
    if call.name.endswith("ai_summarize_agg"):
        _model(call)
        yield from around(call, ["ai_summarize(nullif(string_agg(", value, ", ' '), ''), on_error => 'fail')"])
        return
    opened = f"ai_gen({_instruction(call, text)}, texts => nullif(string_agg("
    yield from around(call, [opened, value, f", ' '), ''){_model(call)}, on_error => 'fail')"])


def _instruction(call: VendorCall, text: Given) -> str:
    given = call.named("instruction", "task_description", "prompt")
    given = given or (call.positional(1) if text.name is None else call.positional(0))
    found = None if given is None else _joined(call, given)
    if found is None:
        raise call.error(f"the instruction must be a text literal: write {_advice(call, text)}")
    return text_literal(without_references(found))


def _joined(call: VendorCall, given: Given) -> str | None:
    """Return a text literal, or adjacent literals as one text."""
    values = [constant(call.source, at, at + 1) for at in range(given.first, given.last)]
    texts = [value for value in values if isinstance(value, str)]
    return "".join(texts) if texts and len(texts) == len(values) else None


def _model(call: VendorCall) -> str:
    named = call.named("endpoint", "model")
    for given in call.arguments:
        if given.name is not None and given.name not in _KNOWN:
            raise call.error(f"{given.name} has no counterpart here: leave it out")
    return "" if named is None else f", model => {call.text(named)}"


def _advice(call: VendorCall, text: Given) -> str:
    return f"ai_gen('What do they say?', texts => string_agg({call.text(text)}, ' '))"
