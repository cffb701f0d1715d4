"""Rewrite vendors' arguments: options under other names or in an object, prompts as tuples, further positions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.paths import NUMBERS
from flightllm.functions.base import Entries, Literal
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
    **dict.fromkeys(("ai.generate_bool", "ai.generate_int", "ai.generate_double"), 0),
}
"""For each function, the position of the prompt, which can be a tuple."""
_ENDPOINT = MappingProxyType({"endpoint": "model"})
RENAMED: Mapping[str, Mapping[str, str]] = {
    "ai_extract": {"text": "input", "responseformat": "schema"},
    "ai_classify": {"categories": "labels"},
    "ai.classify": {"categories": "labels", "endpoint": "model"},
    "ai_query": {"request": "prompt", "endpoint": "model", "responseformat": "response_format"},
    **dict.fromkeys(("ai.if", "ai.score", "ai.generate", "ai.generate_text", "ai.generate_bool", *NUMBERS), _ENDPOINT),
}
"""For each function, the vendor's names of arguments and this server's names."""
_OPTIONS: Mapping[str, str] = {
    "task_description": "instructions",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_words": "max_words",
    **{name: name for name in ("temperature", "top_p", "max_tokens", "seed", "model", "examples", "instructions")},
    "response_format": "response_format",
    "reasoning_effort": "reasoning",
}
"""The vendors' names of options in an object, and this server's names."""
_SWITCHES = ("guardrails", "guardrail", "show_details", "return_error_details", "stream")
"""Options of an object that are always off here, so that only turning them on is an error."""
WITH_OBJECT = (
    "ai_classify",
    "cortex.classify_text",
    "ai_complete",
    "cortex.complete",
    "cortex.try_complete",
    "ai_redact",
)
_OPTIONS_PLACE = 2
_JSON_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("VARCHAR", "TEXT", "CHAR", "DATE", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME"), "string"),
    **dict.fromkeys(("BIGINT", "INT", "SMALLINT", "TINYINT"), "integer"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "number"),
    "BOOLEAN": "boolean",
}


def arguments(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `AI_CLASSIFY(a, ['x', 'y'], {'output_mode': 'multi'})` as `AI_CLASSIFY(a, ['x', 'y'], multi => true)`.

    Raises:
        SqlError: an option has no counterpart, or would change the result of the function.
    """
    name = call.name.removeprefix("cortex.") if call.name.startswith("cortex.ai_") else call.name
    yield from _prompt(call, name)
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
    yield from _added(call, name, unnamed)


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
    constant = _constant(call, given)
    match name, given.name:
        case (_, "model_parameters" | "modelparameters") if name in {"ai_complete", "cortex.complete", "ai_query"}:
            return _object(call, constant)
        case (_, "output_mode") if name in {"ai_classify", "ai.classify"}:
            return _mode(call, constant)
        case ("ai_query", "failonerror"):
            return _on_error(call, constant)
        case ("ai_query", "returntype") | ("ai.generate", "output_schema"):
            return _schema(call, constant, given.name)
        case _:
            return _plumbing(call, given.name) if name.startswith("ai.") else None


def _unnamed(call: VendorCall, name: str, given: Given, place: int) -> str | None:
    """Return the replacement of the argument at a position: an empty text removes it, and None keeps it."""
    constant = _constant(call, given)
    if name in {"ai_translate", "cortex.translate"} and place == 1 and (target := call.positional(2)) is not None:
        if not _is_text_or_null(call, given):
            text = call.text(call.arguments[0])
            raise call.error(
                f"the second of three arguments is the language of the text, and must be a text literal or NULL: write"
                f" ai_translate({text}, {call.text(target)}), as the model recognizes the language"
            )
        return ""
    if name == "ai_summarize" and place == 1 and isinstance(constant, int):
        return f"max_words => {constant}" if constant else ""
    if name not in WITH_OBJECT or not call.source.is_symbol(given.first, "{"):
        return None
    if place == _OPTIONS_PLACE + 1:
        return f"response_format => {call.text(given)}"
    return _object(call, constant) if place == _OPTIONS_PLACE else None


def _plumbing(call: VendorCall, name: str) -> str | None:
    """Return an empty text for an argument that says only how BigQuery reaches a model; otherwise None.

    Raises:
        SqlError: the argument changes which rows are asked, or how.
    """
    if name == "model_params":
        raise call.error(
            "model_params is unknown here: write temperature =>, top_p => or max_tokens => after the prompt"
        )
    if name == "optimization_mode":
        raise call.error(
            "optimization_mode is unknown here: write ai_filter('…', t, recall => 0.95, precision => 0.9), which lets a"
            " cheaper proxy decide most rows"
        )
    if name in {"embeddings", "max_error_ratio"}:
        raise call.error(f"{name} is unknown here, where the model answers each row: leave it out")
    return "" if name in {"connection_id", "request_type"} else None


def _constant(call: VendorCall, given: Given) -> Literal:
    found = read_constant(call.source.tokens[given.first : given.last])
    return None if found is None else found.value


def _is_text_or_null(call: VendorCall, given: Given) -> bool:
    found = read_constant(call.source.tokens[given.first : given.last])
    return found is not None and (found.value is None or isinstance(found.value, str))


def _object(call: VendorCall, value: Literal) -> str:
    """Return the options that an object of options contains."""
    if not isinstance(value, Entries):
        raise call.error("an object of options must be constant: write each as option => value, as in temperature => 0")
    return ", ".join(option for key, one in value.items if (option := _option(call, key.lower(), one)))


def _option(call: VendorCall, key: str, value: Literal) -> str:
    if key == "output_mode":
        return _mode(call, value)
    if key in _SWITCHES:
        if value:
            raise call.error(f"the option {key!r} is not known here: leave it out; on_error => 'struct' returns errors")
        return ""
    if key not in _OPTIONS:
        known = ", ".join(dict.fromkeys(_OPTIONS.values()))
        raise call.error(f"the option {key!r} is not known here: write one of {known}, as option => value")
    return f"{_OPTIONS[key]} => {_literal(value)}"


def _literal(value: Literal) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return text_literal(value)
        case Entries():
            return "{" + ", ".join(f"{text_literal(key)}: {_literal(one)}" for key, one in value.items) + "}"
        case tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case _:
            return repr(value)


def _mode(call: VendorCall, value: Literal) -> str:
    if value not in {"multi", "single"}:
        raise call.error("output_mode is 'single' or 'multi': write multi => true for all labels that fit")
    return f"multi => {str(value == 'multi').lower()}"


def _on_error(call: VendorCall, value: Literal) -> str:
    if value is not True:
        raise call.error(
            "failOnError => false returns the vendor's own struct there: write on_error => 'struct', which returns"
            " {value, error}, or leave it out to get NULL for an unusable answer"
        )
    return "on_error => 'fail'"


def _schema(call: VendorCall, value: Literal, name: str) -> str:
    """Return `response_format` for columns such as `'city STRING, rooms INT64'`."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    databricks = name == "returntype"
    text = value if isinstance(value, str) else ""
    if databricks and text.strip().upper() == "STRING":
        return ""
    try:
        whole = text if databricks else f"STRUCT<{text}>"
        found = exp.DataType.build(whole, dialect="databricks" if databricks else "bigquery") if text else None
    except SqlglotError:
        found = None
    schema = None if found is None else _json_schema(found)
    if schema is None or schema["type"] != "object":
        shown = "returnType" if databricks else name
        raise call.error(
            f"{shown} must list columns with plain types: write response_format => with a JSON Schema"
            " or a list of names, or CAST the result of the call"
        )
    return f"response_format => {text_literal(json.dumps(schema, ensure_ascii=False))}"


def _json_schema(kind: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a type of sqlglot's; None for a type without a JSON Schema."""
    from sqlglot import exp

    if kind.is_type("struct"):
        fields: dict[str, Any] = {}
        for column in kind.expressions:
            one = _json_schema(column.kind) if isinstance(column, exp.ColumnDef) and column.kind else None
            if one is None:
                return None
            fields[column.name] = one
        return {"type": "object", "properties": fields, "required": list(fields)} if fields else None
    if kind.is_type("array"):
        items = _json_schema(kind.expressions[0]) if kind.expressions else None
        return None if items is None else {"type": "array", "items": items}
    named = _JSON_TYPES.get(kind.this.name if isinstance(kind.this, exp.DType) else "")
    return None if named is None else {"type": named}


def _added(call: VendorCall, name: str, unnamed: int) -> Iterator[Edit]:
    """Add the arguments that a vendor's function has by default."""
    added = ""
    if name in NUMBERS:
        properties = {"value": {"type": NUMBERS[name]}}
        schema = {"type": "object", "properties": properties, "required": ["value"]}
        added = f"response_format => {text_literal(json.dumps(schema))}"
    elif name == "ai_redact" and unnamed < 2 and call.named("labels") is None:
        added = f"labels => [{', '.join(map(text_literal, PERSONAL))}]"
    if added:
        closing = call.source.tokens[call.closing]
        yield Edit(closing.start, closing.end, f", {added})")


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
