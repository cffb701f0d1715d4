"""Check the named arguments of vendors' functions: an unknown name is an error, and never a field of the prompt."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import constant
from flightllm.functions.base import COMMON_OPTIONS
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind

_OWN = tuple(option.name for option in COMMON_OPTIONS)
_GENERATING = ("ai.generate", "ai.generate_text", "ai.generate_bool", *("ai.generate_int", "ai.generate_double"))
_CHATS = (
    *("ai.openai_chat_complete", "ai.ollama_chat_complete", "ai.anthropic_generate", "ai.litellm_chat_complete"),
    *("ai.cohere_chat_complete", "azure_openai.create_chat_completion", "ai.ollama_generate"),
)
_PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ai_query": ("endpoint", "request", "prompt", "response_format"),
        **dict.fromkeys(_GENERATING, ("prompt", "response_format", "output_schema")),
        **dict.fromkeys(("google_ml.generate", "azure_ai.generate"), ("prompt", "response_format")),
        **dict.fromkeys(("ai.if", "google_ml.if", "azure_ai.is_true", "ai.score"), ("prompt", "low", "high")),
        "ai.classify": ("input", "labels", "multi", "categories", "output_mode", "examples"),
        **dict.fromkeys(_CHATS, ("prompt", "messages", "response_format")),
        "ai.openai_chat_complete_simple": ("prompt", "message", "response_format"),
        "ai_complete": ("prompt", "model_parameters", "response_format", "return_error_details", "show_details"),
        **dict.fromkeys(("cortex.complete", "cortex.try_complete"), ("prompt", "response_format")),
    }
)
"""For each function, what it takes besides the options of every function."""
_OF_COMPLETE = ("model_parameters", "response_format", "return_error_details", "show_details")
"""The options of Snowflake's AI_COMPLETE; a name that is like none of them is a field of the prompt."""
_PROMISED = ("recall", "precision", "accuracy", "proxy", "label_budget", "confidence", "calibrate")
_MODEL_SECOND = (
    *("ai.if", "ai.generate", "ai.generate_text", "ai.score", "google_ml.if", "google_ml.generate"),
    *("azure_ai.generate", "azure_ai.is_true"),
)
"""Functions whose second argument without a name is a model."""
_MOST: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(_MODEL_SECOND, 2),
        **dict.fromkeys(_CHATS, 2),
        **dict.fromkeys(("ai.generate_bool", "ai.generate_int", "ai.generate_double"), 1),
        "ai.openai_chat_complete_simple": 1,
        "ai.classify": 2,
        "ai_query": 4,
    }
)
"""For each function, how many arguments have no name."""


def refuse_unknown(call: VendorCall, name: str, given: Given, renamed: Mapping[str, str]) -> None:
    """Raise an error for a named argument that is not an option here, such as `endpont => 'm'`.

    Raises:
        SqlError: the message lists the options that the function has.
    """
    if name == "ai_complete" and given.name not in _OF_COMPLETE:
        for meant in get_close_matches(given.name or "", _OF_COMPLETE, n=1, cutoff=0.8):
            raise call.error(f"the option {given.name!r} is not known here: write {meant}, or leave it out")
    found = _PARAMETERS.get(name)
    if found is None or given.name is None or _refers(call, given.name) or (name == "ai_complete" and _is_ours(call)):
        return
    known = tuple(dict.fromkeys((*found, *renamed, *_OWN)))
    if given.name not in (*known, *_PROMISED):
        raise call.error(
            f"the option {given.name!r} is not known here: write one of {', '.join(known)}, or leave it out"
        )


def second(call: VendorCall, name: str, given: Given, place: int) -> str | None:
    """Return `model => 'm'` for the second value of `ai.if('Good? ' || note, 'm')`; None keeps an argument.

    Raises:
        SqlError: the value is not a text literal, or one more value follows.
    """
    most = _MOST.get(name)
    value = constant(call.source, given.first, given.last)
    if most is None or (not isinstance(value, str) and any(_references(call))):
        return None
    if place >= most:
        raise call.error(
            f"it takes {most} value{'s' * (most > 1)} without a name: write each other one as option => value"
        )
    if place != 1 or name not in _MODEL_SECOND:
        return None
    if not isinstance(value, str):
        prompt = call.named("prompt") or call.positional(0)
        asked = "prompt" if prompt is None else call.text(prompt)
        first = None if prompt is None else constant(call.source, prompt.first, prompt.last)
        if isinstance(first, str) and first and " " not in first:
            line = f"{call.shown}({call.text(given)}, model => {text_literal(first)})"
            raise call.error(f"its first value is the prompt: write {line}")
        raise call.error(
            f"its second value is the name of a model: write {call.shown}({asked} || {call.text(given)}), or"
            " model => 'name'"
        )
    return f"model => {text_literal(value)}"


def _is_ours(call: VendorCall) -> bool:
    """Return whether a call is the server's own, of which each other name is a field of the prompt.

    In the dialect snowflake, it names its model as a column is named; Snowflake takes the name as a text.
    """
    if call.source.dialect != "snowflake":
        return True
    model = call.positional(0)
    return model is not None and constant(call.source, model.first, model.last) is None


def _refers(call: VendorCall, name: str) -> bool:
    return name in _references(call)


def _references(call: VendorCall) -> Iterator[str]:
    """Yield the names in braces, such as `{note}`, in the texts of a call."""
    for token in call.source.tokens[call.opening : call.closing]:
        if token.kind is TokenKind.STRING:
            yield from (one.lower() for one in re.findall(r"(?<!\{)\{(\w*[A-Za-z_]\w*)\}(?!\})", token.text))
