"""Read options in vendors' objects, such as `{'temperature': 0}`, `MAP('multilabel', 'true')` and JSON text."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType

from flightllm.dialect.vendors.calls import VendorCall
from flightllm.functions.base import Entries, Literal
from flightllm.functions.labels import as_json, read_json
from flightllm.sql.literals import text_literal

_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("task_description", "instructions", "system_prompt", "system_instruction"), "instructions"),
        **dict.fromkeys(("max_completion_tokens", "max_output_tokens", "maxoutputtokens", "num_predict"), "max_tokens"),
        **{name: name for name in ("temperature", "top_p", "max_tokens", "seed", "model", "examples", "max_words")},
        "topp": "top_p",
        "response_format": "response_format",
        "responseformat": "response_format",
        **dict.fromkeys(("reasoning_effort", "thinking_level"), "reasoning"),
    }
)
"""The vendors' names of options in an object, and this server's names."""
_WHOLE = ("generation_config", "generationconfig", "thinking_config", "thinkingconfig", "options")
"""Keys whose objects hold more options."""
_NOTHING = (
    *("labels", "safety_settings", "safetysettings", "version", "user", "cachedcontent", "cached_content"),
    *("include_thoughts", "includethoughts", "presence_penalty_default", "flatten_json_output"),
)
"""Keys that change no answer here: labels of bills, filters of the vendor, versions of its functions."""
_OFF = ("guardrails", "guardrail", "guard", "show_details", "stream")
"""Keys that are always off here, so that only turning them on is an error."""
_FREE = ("response_format", "max_words")
"""Options of functions whose answers can have any form; the functions of `_FIXED` refuse them."""
_FIXED = (
    *("ai_filter", "ai_if", "if", "is_true", "generate_bool"),
    *("ai_score", "score", "ai_classify", "classify", "classify_text"),
    *("ai_sentiment", "llm_filter", "llm_first", "llm_last", "llm_rerank"),
    *("ai_redact", "ai_mask", "ai_translate", "translate", "ai_fix_grammar"),
)
"""The last words of the names of functions whose answers have one form."""
_SUMMARIES = ("ai_summarize", "summarize")
_EFFORTS: Mapping[str, str] = MappingProxyType({"none": "off", "minimal": "low"})
_LOW, _MEDIUM = 1_024, 8_192
"""The most tokens of thought that count as low, and as medium."""


def options_of(call: VendorCall, value: Literal, key: str = "") -> list[str]:
    """Return the options in an object, or one option under a key, as `name => value`.

    Raises:
        SqlError: the object is not constant, or an option has no counterpart.
    """
    if key:
        return _option(call, key.lower(), value)
    if isinstance(value, str):
        value = read_json(value)
    if not isinstance(value, Entries):
        raise call.error("an object of options must be constant: write each as option => value, as in temperature => 0")
    return [option for name, one in value.items for option in _option(call, name.lower(), one)]


def is_option(key: str) -> bool:
    """Return whether a vendor's name of an option differs from ours, or changes nothing here."""
    return _OPTIONS.get(key, key) != key or key in (*_NOTHING, *_OFF)


def _option(call: VendorCall, key: str, value: Literal) -> list[str]:
    if (special := _SPECIAL.get(key)) is not None:
        return special(call, value)
    if key in _WHOLE:
        return options_of(call, value)
    if key in _NOTHING or (key in _OFF and not _is_true(value)):
        return []
    if key in _OFF:
        raise call.error(f"the option {key!r} is not known here: leave it out; on_error => 'struct' returns errors")
    if key not in _OPTIONS:
        known = ", ".join(dict.fromkeys(_OPTIONS.values()))
        raise call.error(
            f"the option {key!r} is not known here: write one of {known}, as option => value, or leave it out"
        )
    ours, function = _OPTIONS[key], call.name.rsplit(".", maxsplit=1)[-1]
    if ours in _FREE and (function in _FIXED or (ours == "response_format" and function in _SUMMARIES)):
        raise call.error(f"the option {key!r} is not known here, because its answer has one form: leave it out")
    if ours == "instructions":
        return [f"instructions => {text_literal(without_references(str(value)))}"]
    if ours == "reasoning" and isinstance(value, str):
        value = _EFFORTS.get(value.lower(), value.lower())
    return [f"{ours} => {literal(value)}"]


def literal(value: Literal) -> str:
    """Return a constant as SQL that each dialect reads; a list or an object becomes JSON text."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return text_literal(value)
        case Entries() | tuple():
            return text_literal(json.dumps(as_json(value), ensure_ascii=False))
        case _:
            return repr(value)


def without_references(text: str) -> str:
    """Return a text in which braces are only braces, and refer to no field."""
    return text.replace("{", "{{").replace("}", "}}")


def mode(call: VendorCall, value: Literal) -> list[str]:
    """Return `multi` for an output mode of BigQuery and Snowflake.

    Raises:
        SqlError: there is no such mode.
    """
    if value not in {"multi", "single"}:
        raise call.error("output_mode is 'single' or 'multi': write multi => true for all labels that fit")
    return ["multi => true"] if value == "multi" else []


def details(_: VendorCall, value: Literal) -> list[str]:
    """Return `on_error` for Snowflake's flag, which returns `{value, error}`."""
    return ["on_error => 'struct'"] if _is_true(value) else []


def _multi(_: VendorCall, value: Literal) -> list[str]:
    return ["multi => true"] if _is_true(value) else []


def _thinking(_: VendorCall, value: Literal) -> list[str]:
    """Return `reasoning` for a number of tokens of thought; below 0, the model chooses."""
    if not isinstance(value, int | float) or value < 0:
        return []
    level = "off" if value == 0 else "low" if value <= _LOW else "medium" if value <= _MEDIUM else "high"
    return [f"reasoning => '{level}'"]


def _is_true(value: Literal) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true")


_SPECIAL: Mapping[str, Callable[[VendorCall, Literal], list[str]]] = MappingProxyType(
    {
        "output_mode": mode,
        "multilabel": _multi,
        "multi_label": _multi,
        "return_error_details": details,
        "thinking_budget": _thinking,
        "thinkingbudget": _thinking,
    }
)
