"""Rewrite vendors' arguments: options under other names or in an object, prompts as tuples, further positions."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.known import refuse_unknown, second
from flightllm.dialect.vendors.messages import messages
from flightllm.dialect.vendors.objects import constant, members
from flightllm.dialect.vendors.options import details, is_option, mode, options_of
from flightllm.dialect.vendors.paths import NUMBERS
from flightllm.dialect.vendors.refused import scale_of
from flightllm.functions.base import Literal
from flightllm.functions.questions import ANY_OBJECT
from flightllm.functions.type_schemas import schema_of_columns, schema_of_type
from flightllm.sql.arguments import read_column, read_constant, split_arguments
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind

PERSONAL = (
    *("name", "email", "phone number", "date of birth", "gender", "age", "address", "national id", "passport"),
    *("tax identifier", "payment card data", "driver's license", "IP address"),
)
"""The labels that Snowflake's AI_REDACT redacts by default."""
PROMPTS: Mapping[str, int] = {
    **dict.fromkeys(("ai_if", "ai_filter", "ai_score", "ai_gen", "ai_classify"), 0),
    **dict.fromkeys(("ai_complete", "ai_query"), 1),
    **dict.fromkeys(("ai.if", "ai.score", "ai.classify", "ai.generate", "ai.generate_text"), 0),
    **dict.fromkeys(("ai.generate_bool", "ai.generate_int", "ai.generate_double", "google_ml.if"), 0),
}
"""For each function, the position of the prompt, which can be a tuple."""
_ENDPOINT = MappingProxyType({"endpoint": "model", "model_id": "model", "system_instruction": "instructions"})
_MESSAGES = MappingProxyType({"messages": "prompt"})
RENAMED: Mapping[str, Mapping[str, str]] = {
    "ai_extract": {"text": "input", "responseformat": "schema"},
    "ai_classify": {"categories": "labels", "list_of_categories": "labels", "content": "input"},
    "cortex.classify_text": {"list_of_categories": "labels"},
    "ai.classify": {"categories": "labels", "endpoint": "model"},
    "ai_query": {"request": "prompt", "endpoint": "model", "responseformat": "response_format"},
    **dict.fromkeys(("google_ml.if", "google_ml.generate"), _ENDPOINT),
    **dict.fromkeys(("ai.openai_chat_complete", "ai.ollama_chat_complete", "ai.cohere_chat_complete"), _MESSAGES),
    "azure_openai.create_chat_completion": {"messages": "prompt", "deployment_name": "model"},
    **dict.fromkeys(("ai.if", "ai.score", "ai.generate", "ai.generate_text", "ai.generate_bool", *NUMBERS), _ENDPOINT),
}
"""For each function, the vendor's names of arguments and this server's names."""
WITH_OPTIONS: Mapping[str, int] = {
    **dict.fromkeys(("ai_classify", "cortex.classify_text", "ai_complete", "cortex.complete", "ai_extract"), 2),
    **dict.fromkeys(("cortex.try_complete", "ai_redact", "ai_mask", "ai_query"), 2),
    **dict.fromkeys(("ai_filter", "ai_summarize", "cortex.summarize", "ai_sentiment", "ai_fix_grammar"), 1),
    **dict.fromkeys(("ai_translate", "cortex.translate"), 2),
}
"""For each function, the first position at which an object of options, or a flag for errors, can be."""
_DETAILS_PLACE = 4
"""The position at which AI_COMPLETE takes its flag for details of the answer."""
_COMPLETES = ("ai_complete", "cortex.complete", "cortex.try_complete")
_PLACES = re.compile(r"\{(\d+)\}")
_NOT_SQL = ("connection_id", "request_type", "api_key", "api_key_name", "base_url", "host", "keep_alive", "verbose")
"""Arguments that say only how a vendor reaches a model."""
_SCHEMAS = ("ai", "google_ml", "azure_ai", "azure_openai")


def arguments(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `AI_CLASSIFY(a, ['x', 'y'], {'output_mode': 'multi'})` as `AI_CLASSIFY(a, ['x', 'y'], multi => true)`.

    Raises:
        SqlError: an option has no counterpart, or would change the result of the function.
    """
    name = call.name.removeprefix("cortex.") if call.name.startswith("cortex.ai_") else call.name
    said, told = messages(call, name)
    yield from said or _prompt(call, name)
    yield from _template(call, name)
    unnamed = kept = 0
    for place, given in enumerate(call.arguments):
        written = _argument(call, name, given, unnamed)
        unnamed += given.name is None
        if written == "":
            yield _dropped(call, place, first=not kept)
            continue
        kept += 1
        if written is not None:
            yield Edit(call.source.tokens[given.start].start, _end(call, given), written)
        elif given.name is not None and (ours := RENAMED.get(name, {}).get(given.name)):
            token = call.source.tokens[given.start]
            yield Edit(token.start, token.end, ours)
    yield from _added(call, name, told)


def _dropped(call: VendorCall, place: int, *, first: bool) -> Edit:
    """Remove an argument with the comma before it, or with the comma after it if no argument before it stays."""
    given, following = call.arguments[place], call.arguments[place + 1 : place + 2]
    if not first:
        return Edit(_end(call, call.arguments[place - 1]), _end(call, given), "")
    end = call.source.tokens[following[0].start].start if following else _end(call, given)
    return Edit(call.source.tokens[given.start].start, end, "")


def _end(call: VendorCall, given: Given) -> int:
    return call.source.tokens[given.last - 1].end


def _argument(call: VendorCall, name: str, given: Given, place: int) -> str | None:
    """Return the replacement of an argument: an empty text removes it, and None keeps it."""
    if given.name is None:
        return _unnamed(call, name, given, place)
    value = constant(call.source, given.first, given.last)
    if (text := _named_prompt(call, name, given)) is not None:
        return text
    match name, given.name:
        case (_, "model_parameters" | "modelparameters" | "config_object" | "options" | "model_params"):
            return ", ".join(options_of(call, value)) if name in WITH_OPTIONS or name in PROMPTS else None
        case (_, "embedding_options" | "chat_options") if name.startswith("ai."):
            return ", ".join(options_of(call, value))
        case (_, "output_mode") if name in {"ai_classify", "ai.classify"}:
            return ", ".join(mode(call, value)) or "multi => false"
        case (_, "return_error_details" | "show_details" | "task_description" | "guardrails") if name in WITH_OPTIONS:
            return ", ".join(options_of(call, value, given.name))
        case ("ai_query", "failonerror"):
            return _on_error(call, value)
        case ("ai_query", "responseformat") if value in {"json_object", "text"}:
            return f"response_format => {text_literal(ANY_OBJECT)}" if value == "json_object" else ""
        case ("ai_query", "returntype") | ("ai.generate", "output_schema"):
            return _schema(call, value, given.name)
        case _:
            return _other(call, name, given, value)


def _other(call: VendorCall, name: str, given: Given, value: Literal) -> str | None:
    """Return the replacement of an option that has a vendor's name, or of a vendor's way to reach a model."""
    schema = name.split(".", maxsplit=1)[0]
    if schema in _SCHEMAS and (dropped := _plumbing(call, given.name or "")) is not None:
        return dropped
    if schema not in _SCHEMAS or given.name is None:
        refuse_unknown(call, name, given, RENAMED.get(name, {}))
        return None
    if given.name == "response_format" and isinstance(value, str):
        return f"response_format => {text_literal(value)}"
    if name not in RENAMED or given.name not in RENAMED[name]:
        if value is not None and is_option(given.name):
            return ", ".join(options_of(call, value, given.name))
        refuse_unknown(call, name, given, RENAMED.get(name, {}))
    return None


def _named_prompt(call: VendorCall, name: str, given: Given) -> str | None:
    """Return a prompt by name as a computed text, because a single word is the name of a prompt here; else None."""
    ours = RENAMED.get(name, {}).get(given.name or "", given.name)
    tokens = call.source.tokens[given.first : given.last]
    is_theirs = "." in name or given.name == "request"
    is_text = len(tokens) == 1 and tokens[0].kind is TokenKind.STRING and is_theirs
    if ours != "prompt" or name not in PROMPTS or not (is_text or read_column(tokens) is not None):
        return None
    return f"prompt => ('' || {call.text(given)})"


def _unnamed(call: VendorCall, name: str, given: Given, place: int) -> str | None:
    """Return the replacement of the argument at a position: an empty text removes it, and None keeps it."""
    value = constant(call.source, given.first, given.last)
    last = call.positional(place + 1) is None
    if name == "ai_query" and place in {2, 3}:
        _refuse_pairs(call, value, place)
        return _schema(call, value, "returntype") if place == 2 else _on_error(call, value)
    if isinstance(value, bool) and last and place and name in WITH_OPTIONS:
        if name in _COMPLETES and place == _DETAILS_PLACE:
            return ", ".join(options_of(call, value, "show_details"))
        return ", ".join(details(call, value))
    if name in {"ai_translate", "cortex.translate"} and place == 1 and _is_text(call, call.positional(2)):
        if not _is_text_or_null(call, given):
            text = call.text(call.arguments[0])
            target = call.text(call.arguments[2])
            raise call.error(
                f"the second of three arguments is the language of the text, and must be a text literal or NULL: write"
                f" ai_translate({text}, {target}), as the model recognizes the language"
            )
        return ""
    if name == "ai_summarize" and place == 1 and isinstance(value, int):
        return f"max_words => {value}" if value else ""
    written = _options_at(call, name, given, place)
    return second(call, name, given, place) if written is None else written


def _refuse_pairs(call: VendorCall, value: Literal, place: int) -> None:
    """Refuse `ai_query('m', text, 'returnType', 'STRING')`, an older form, and parameters at the third place."""
    if place != 2 or not isinstance(value, str):
        return
    if value.lower() == "returntype":
        following = call.positional(3)
        raise call.error(f"write returnType => {'type' if following is None else call.text(following)}")
    if value.lstrip().startswith("{"):
        raise call.error("parameters have a name: write modelParameters => named_struct('max_tokens', 300)")


def _options_at(call: VendorCall, name: str, given: Given, place: int) -> str | None:
    """Return the options in an object at a position; None for another argument."""
    if place < WITH_OPTIONS.get(name, place + 1) or members(call.source, given.first, given.last) is None:
        return None
    if name in _COMPLETES and place > WITH_OPTIONS[name]:
        return f"response_format => {call.text(given)}"
    return ", ".join(options_of(call, constant(call.source, given.first, given.last)))


def _is_text(call: VendorCall, given: Given | None) -> bool:
    """Return whether an argument is there, and is neither a flag nor an object."""
    if given is None or members(call.source, given.first, given.last) is not None:
        return False
    return not isinstance(constant(call.source, given.first, given.last), bool)


def _plumbing(call: VendorCall, name: str) -> str | None:
    """Return an empty text for an argument that says only how BigQuery reaches a model; otherwise None.

    Raises:
        SqlError: the argument changes which rows are asked, or how.
    """
    if name == "optimization_mode":
        raise call.error(
            "optimization_mode is unknown here: write ai_filter('…', t, recall => 0.95, precision => 0.9), which lets a"
            " cheaper proxy decide most rows"
        )
    if name in {"embeddings", "max_error_ratio"}:
        raise call.error(f"{name} is unknown here, where the model answers each row: leave it out")
    return "" if name in _NOT_SQL else None


def _is_text_or_null(call: VendorCall, given: Given) -> bool:
    found = read_constant(call.source.tokens[given.first : given.last])
    return found is not None and (found.value is None or isinstance(found.value, str))


def _on_error(call: VendorCall, value: Literal) -> str:
    if not isinstance(value, bool):
        raise call.error("failOnError is true or false: write on_error => 'fail' or on_error => 'result'")
    return "on_error => 'fail'" if value else "on_error => 'result'"


def _schema(call: VendorCall, value: Literal, name: str) -> str:
    """Return `response_format` for columns such as `'city STRING, rooms INT64'`."""
    databricks = name == "returntype"
    text = value if isinstance(value, str) else ""
    if databricks and text.strip().upper() == "STRING":
        return ""
    schema = schema_of_type(text) if databricks else schema_of_columns(text)
    if schema is None and databricks and text.upper().replace(" ", "") in {"ARRAY<FLOAT>", "ARRAY<DOUBLE>"}:
        asked = call.named("request", "prompt") or call.positional(1)
        shown = "text" if asked is None else call.text(asked)
        raise call.error(f"the server has one embedding model: write ai_embed({shown})")
    if schema is None:
        shown = "returnType" if databricks else name
        raise call.error(
            f"{shown} must list columns with plain types: write response_format => with a JSON Schema"
            " or a list of names, or CAST the result of the call"
        )
    return f"response_format => {text_literal(schema)}"


def _added(call: VendorCall, name: str, told: str) -> Iterator[Edit]:
    """Add the arguments that a vendor's function has by default."""
    added, labels = told, call.positional(1)
    if name in NUMBERS:
        properties = {"value": {"type": NUMBERS[name]}}
        schema = {"type": "object", "properties": properties, "required": ["value"]}
        added = f"response_format => {text_literal(json.dumps(schema))}"
    elif name == "ai.score" and (scale := scale_of(call)) is not None:
        added = f"low => {scale[0]}, high => {scale[1]}"
    elif name == "ai_redact" and not _is_labels(call, labels) and call.named("labels", "categories") is None:
        added = f"labels => [{', '.join(map(text_literal, PERSONAL))}]"
    if added:
        closing = call.source.tokens[call.closing]
        yield Edit(closing.start, closing.end, f", {added})")


def _is_labels(call: VendorCall, given: Given | None) -> bool:
    return given is not None and not isinstance(constant(call.source, given.first, given.last), bool)


def _prompt(call: VendorCall, name: str) -> Iterator[Edit]:
    """Rewrite `('Is it kind? ', review)` as `('Is it kind? ' || review)`: a NULL part gives NULL, without a call."""
    place = PROMPTS.get(name)
    given = None if place is None else call.named("prompt", "input", "request") or call.positional(place)
    if given is None:
        return
    source, first = call.source, given.first
    struct = source.is_word(first, "struct")
    opening = first + struct
    if not source.is_symbol(opening, "(") or source.closing.get(opening) != given.last - 1:
        return
    items = list(split_arguments(source.tokens, opening + 1, given.last - 1, source.closing))
    if len(items) < 2 or any(start == end for start, end in items):
        return
    if any(source.is_word(at, "as") for at in _top(call, opening + 1, given.last - 1)):
        raise call.error("the parts of a prompt have no names: write ('a text', column)")
    if struct:
        yield Edit(source.tokens[first].start, source.tokens[first].end, "")
    yield from _joined(call, opening, items)


def _template(call: VendorCall, name: str) -> Iterator[Edit]:
    """Rewrite `PROMPT('Is it {0}?', a)`, as the text to classify, as `('Is it ' || a || '?')`.

    Raises:
        SqlError: the template does not use each value once and in order.
    """
    given = call.positional(0) if name in {"ai_classify", "cortex.classify_text"} else None
    source = call.source
    if (
        given is None
        or not source.is_word(given.first, "prompt")
        or source.closing.get(given.first + 1) != given.last - 1
    ):
        return
    items = list(split_arguments(source.tokens, given.first + 2, given.last - 1, source.closing))
    template = constant(source, *items[0]) if items else None
    parts = _PLACES.split(template) if isinstance(template, str) else []
    if parts[1::2] != [str(place) for place in range(len(items) - 1)] or len(parts) < 3:
        raise call.error("PROMPT must use each value once and in order: write a || ' text ' || b")
    tokens, start = source.tokens, source.tokens[given.first].start
    for at, ((first, last), before) in enumerate(zip(items[1:], parts[::2], strict=False)):
        yield Edit(start, tokens[first].start, f"{') || ' if at else '('}{text_literal(before)} || (")
        start = tokens[last - 1].end
    yield Edit(start, tokens[given.last - 1].end, f") || {text_literal(parts[-1])})")


def _joined(call: VendorCall, opening: int, items: Sequence[tuple[int, int]]) -> Iterator[Edit]:
    """Join the items of a tuple by `||`."""
    tokens = call.source.tokens
    if all(tokens[start].kind is not TokenKind.STRING or end > start + 1 for start, end in items[:2]):
        # makes `||` join texts if both items are numbers
        yield Edit(tokens[opening].end, tokens[opening].end, "'' || ")
    for start, end in items:
        if start > opening + 1:
            yield Edit(tokens[start - 1].start, tokens[start - 1].end, " ||")
        if not _is_plain(call, start, end):
            yield Edit(tokens[start].start, tokens[start].start, "(")
            yield Edit(tokens[end - 1].end, tokens[end - 1].end, ")")


def _top(call: VendorCall, first: int, last: int) -> Iterator[int]:
    """Yield the tokens of a range that are outside any brackets in it."""
    index = first
    while index < last:
        yield index
        index = call.source.closing.get(index, index) + 1


def _is_plain(call: VendorCall, start: int, end: int) -> bool:
    tokens: Sequence[Any] = call.source.tokens[start:end]
    return len(tokens) == 1 or read_column(tokens) is not None
