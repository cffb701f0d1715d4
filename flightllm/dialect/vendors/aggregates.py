"""Rewrite aggregates over a model: the texts of a group become one value, which a row-wise function reads."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import Value, constant
from flightllm.dialect.vendors.pieces import around
from flightllm.functions.aggregated import AGGREGATE_OPTIONS
from flightllm.functions.base import COMMON_OPTIONS
from flightllm.functions.group_texts import GROUP_KEYED, GROUP_TEXTS, KEYED_TEXT
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind

_SUMMARY: Final = "ai_summarize_agg"
OURS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("ai_agg", "ai.agg"), "ai_agg"),
        **dict.fromkeys((_SUMMARY, "ai.agg_summarize"), _SUMMARY),
    }
)
"""For each aggregate over a model, the function of this server that does the same."""
NAMES = tuple(OURS)
_TEXT: Final = ("text", "input", "expr", "input_text")
_INSTRUCTION: Final = ("instruction", "task_description", "prompt")
_RENAMED: Mapping[str, str] = MappingProxyType({"endpoint": "model"})
_DROPPED: Final = ("connection_id",)
_OPTIONS: Final = (*(option.name for option in (*AGGREGATE_OPTIONS, *COMMON_OPTIONS)), "response_format", "max_words")
_CITATIONS: Final = "citations"


def aggregate(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `ai_agg(DISTINCT body, 'What is new?') FILTER (WHERE open)`, so that DataFusion collects the texts.

    The result is `ai_agg(text => __group_texts(array_agg(DISTINCT …) FILTER (…)), …)`.

    Raises:
        SqlError: an argument is missing, has no counterpart, or cannot be in an aggregate over a model.
    """
    if _is_rewritten(call):
        return
    ours = OURS[call.name.removeprefix("cortex.")]
    text = call.named(*_TEXT) or call.positional(0)
    if text is None:
        raise call.error(f"it needs the text of each row: write {_usage(ours, 'text')}")
    check_places(call, _usage(ours, call.text(text)))
    if any(_is_aggregate(call, at) for at in range(text.first, text.last)):
        raise call.error("an aggregate cannot be in an aggregate: write the inner one in a subquery of FROM")
    if call.source.is_symbol(text.last - 1, "*") and text.last - text.first <= 3:
        raise call.error(f"it reads one text a row, and a star is many: write {_usage(ours, 'column')}")
    given = [given for given in call.arguments if given.first != text.first]
    options = [*_instruction(call, ours, text, given), *_options(call, ours, given)]
    key, own = _key(call), Value(_after_words(call, text), text.last)
    parts: list[str | Value] = ["CAST((", own, ") AS VARCHAR)"]
    if key is not None:
        if key.first < text.first:
            raise call.error("write citations => after the text")
        options.append("citations => true")
        parts = [f"{KEYED_TEXT}(CAST((", own, ") AS VARCHAR), CAST((", Value(key.first, key.last), ") AS VARCHAR))"]
    yield from collected(call, ours, options, parts, distinct=call.source.is_word(text.first, "distinct"))


def collected(
    call: VendorCall, ours: str, options: Sequence[str], parts: Sequence[str | Value], *, distinct: bool = False
) -> Iterator[Edit]:
    """Replace a call by one of the function `ours` over the collected texts, which `parts` compute from a row.

    Values and a FILTER after the call stay in their places, so that calls in them can be rewritten too.
    """
    source = call.source
    group = GROUP_KEYED if parts[0] == f"{KEYED_TEXT}(CAST((" else GROUP_TEXTS
    begun = f"{ours}(text => {group}(array_agg({'DISTINCT ' if distinct else ''}"
    rest = f"){''.join(f', {option}' for option in options)})"
    filtered = source.closing.get(call.closing + 2) if source.is_word(call.closing + 1, "filter") else None
    if filtered is None:
        yield from around(call, [begun, *parts, f"){rest}"])
        return
    if any("?" in option for option in options) and _has_questions(call, call.closing, filtered):
        raise call.error("values for ? in it and in FILTER would change places: write $1, $2, …")
    yield from around(call, [begun, *parts, ")"])
    end = source.tokens[filtered].end
    yield Edit(end, end, rest)


def _has_questions(call: VendorCall, first: int, last: int) -> bool:
    """Return whether a place for a value without a number is among some tokens."""
    tokens = call.source.tokens[first:last]
    return any(token.kind is TokenKind.PLACEHOLDER and token.text == "?" for token in tokens)


def _is_rewritten(call: VendorCall) -> bool:
    """Return whether a rule has rewritten the call before, as in the text of a view."""
    given = call.named("text")
    return given is not None and call.source.is_word(given.first, GROUP_TEXTS, GROUP_KEYED)


def check_places(call: VendorCall, usage: str) -> None:
    """Check what an aggregate over a model cannot have; `usage` is a call that works.

    Raises:
        SqlError: the call is a window function, or orders its rows.
    """
    source, after = call.source, call.closing + 1
    if source.is_word(after, "filter") and (filtered := source.closing.get(after + 1)) is not None:
        after = filtered + 1
    if source.is_word(after, "over"):
        raise call.error(
            f"OVER cannot follow it: write {usage} with GROUP BY in a subquery, and join its rows by the key"
        )
    ordered = any(source.is_word(at, "order") and source.is_word(at + 1, "by") for at in _own_tokens(call))
    if ordered or source.is_word(after, "within"):
        raise call.error(f"the order of rows never changes its answer: leave ORDER BY out, as in {usage}")


def _is_aggregate(call: VendorCall, at: int) -> bool:
    """Return whether an aggregate over a model begins at a token of a call that has no subquery."""
    source = call.source
    queries = any(source.is_word(place, "select") for place in range(call.opening, call.closing))
    return not queries and source.is_word(at, "ai_agg", _SUMMARY) and source.is_symbol(at + 1, "(")


def _own_tokens(call: VendorCall) -> Iterator[int]:
    """Yield the places of a call's tokens that no brackets inside the call enclose."""
    at = call.opening + 1
    while at < call.closing:
        yield at
        at = call.source.closing.get(at, at) + 1


def _after_words(call: VendorCall, text: Given) -> int:
    """Return the place of a text's first token after DISTINCT or ALL."""
    return text.first + call.source.is_word(text.first, "distinct", "all")


def _instruction(call: VendorCall, ours: str, text: Given, given: list[Given]) -> list[str]:
    if ours == _SUMMARY:
        return []
    found = call.named(*_INSTRUCTION)
    if found is None:
        unnamed = [one for one in given if one.name is None]
        found = unnamed[0] if unnamed else None
    if found is not None and call.source.tokens[found.first].kind is TokenKind.PLACEHOLDER:
        given.remove(found)
        return [f"instruction => {call.text(found)}"]
    told = None if found is None else _joined(call, found)
    if told is None:
        raise call.error(f"the instruction must be a text literal: write {_usage(ours, call.text(text))}")
    if found is not None:
        given.remove(found)
    return [f"instruction => {text_literal(told)}"]


def _joined(call: VendorCall, given: Given) -> str | None:
    """Return a text literal, or adjacent literals as one text."""
    values = [constant(call.source, at, at + 1) for at in range(given.first, given.last)]
    texts = [value for value in values if isinstance(value, str)]
    return "".join(texts) if texts and len(texts) == len(values) else None


def _options(call: VendorCall, ours: str, given: Sequence[Given]) -> Iterator[str]:
    """Yield the options of a call as they are written."""
    for one in given:
        name = _RENAMED.get(one.name or "", one.name)
        if name is None:
            raise call.error(f"it has one argument too many: write {_usage(ours, 'text')}, and options by name")
        if name in _DROPPED or (name == _CITATIONS and _key(call) is not None):
            continue
        if name not in _OPTIONS:
            known = ", ".join(option for option in _OPTIONS if option != "max_words" or ours == _SUMMARY)
            raise call.error(f"the option {one.name!r} is not known here: write one of {known}, or leave it out")
        yield f"{name} => {call.text(one)}"


def _key(call: VendorCall) -> Given | None:
    """Return the key column of `citations => column`; None for `true` and `false`."""
    given = call.named(_CITATIONS)
    if given is None or constant(call.source, given.first, given.last) is not None:
        return None
    return None if call.source.is_word(given.first, "null") and given.last - given.first == 1 else given


def _usage(ours: str, text: str) -> str:
    return f"{ours}({text}{'' if ours == _SUMMARY else ', ' + text_literal('What do they say?')})"
