"""Rewrite Flock's functions, which take objects: a model, a prompt, and columns with names."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.aggregates import check_places, collected
from flightllm.dialect.vendors.calls import VendorCall, find_calls
from flightllm.dialect.vendors.objects import Value, constant, elements, members
from flightllm.dialect.vendors.options import options_of
from flightllm.dialect.vendors.pieces import around, written
from flightllm.functions.questions import ANY_OBJECT
from flightllm.sql.arguments import read_column
from flightllm.sql.flock_prompts import our_field, our_prompt
from flightllm.sql.literals import text_literal

OURS: Mapping[str, str] = MappingProxyType(
    {
        "llm_filter": "ai_filter",
        "llm_complete": "ai_gen",
        "llm_complete_json": "ai_gen",
        "llm_reduce": "ai_agg",
        "llm_reduce_json": "ai_agg",
    }
)
"""For each function of Flock, the function of this server that does the same."""
RANKED: Mapping[str, str] = MappingProxyType(
    {
        "llm_rerank": "('[' || string_agg({0}, ',' ORDER BY {1} DESC NULLS LAST) || ']')",
        "llm_first": "first_value({0} ORDER BY {1} DESC NULLS LAST)",
        "llm_last": "first_value({0} ORDER BY {1} ASC NULLS LAST)",
    }
)
"""Aggregates of Flock that order rows: the JSON object of a row is {0}, its score is {1}."""
_EMBEDDING = "llm_embedding"
NAMES = (*OURS, *RANKED, _EMBEDDING)
_PLUMBING = (
    "secret_name",
    "batch_size",
    "max_batch_size",
    "is_async",
    "rate_limit",
    "usage_limit",
    "tuple_format",
    "model_name",
    "model",
    "context_window",
)


def flock(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `llm_filter({'model_name': 'm'}, {'prompt': 'Is it?'}, {'a': b})` as `ai_filter('Is it?', a => (b), …)`.

    Raises:
        SqlError: an argument has no counterpart; the message says what to write.
    """
    model, prompt, columns = _read(call)
    if "reduce" in call.name:
        yield from _reduced(call, model, prompt, columns)
        return
    if call.name in RANKED:
        if call.source.is_word(call.closing + 1, "over", "filter"):
            raise call.error("OVER and FILTER cannot follow it: choose the rows in a subquery, and group by the keys")
        yield Edit(call.start, call.source.tokens[call.closing].end, _ranked(call, model, prompt, columns))
        return
    if call.name == _EMBEDDING:
        yield from _embedded(call, columns)
        return
    parts: list[str | Value] = [f"{OURS[call.name]}({prompt}"]
    for name, value in columns:
        parts += [f", {our_field(name)} => (" if name else ", ", value, ")" if name else ""]
    options = [f", {option}" for option in model]
    if call.name.endswith("_json"):
        options.append(f", response_format => {text_literal(ANY_OBJECT)}")
    yield from around(call, [*parts, *options, ")"])


def _reduced(call: VendorCall, model: list[str], prompt: str, columns: list[tuple[str, Value]]) -> Iterator[Edit]:
    """Rewrite `llm_reduce` as `ai_agg`; rows with several columns are JSON objects.

    Raises:
        SqlError: the prompt has a name only, or refers to one of several columns, or the call has no columns.
    """
    if prompt.startswith("prompt =>"):
        raise call.error("an aggregate takes its prompt as a text: write 'prompt': 'a text' in place of prompt_name")
    if not columns:
        raise call.error("it needs columns: write 'context_columns': [{'data': column}]")
    told = prompt
    for name, _ in columns:
        referred = f"{{{our_field(name)}}}"
        if name and referred in prompt and len(columns) > 1:
            raise call.error("its prompt cannot refer to one of several columns: write 'the rows' in place of {{name}}")
        told = told.replace(referred, name) if name else told
    check_places(call, "ai_agg(text, 'What do they say?')")
    options = [f"instruction => {told.replace('{{', '{').replace('}}', '}')}", *model]
    if call.name.endswith("_json"):
        options.append(f"response_format => {text_literal(ANY_OBJECT)}")
    if not any(option.startswith("on_error") for option in model):
        options.append("on_error => 'fail'")
    parts: list[str | Value] = ["CAST((", columns[0][1], ") AS VARCHAR)"]
    if len(columns) > 1:
        parts = ["to_json({"]
        for place, (name, value) in enumerate(columns):
            parts += [f"{', ' if place else ''}{text_literal(_shown(call, name, value))}: ", value]
        parts.append("})")
    yield from collected(call, OURS[call.name], options, parts)


def _read(call: VendorCall) -> tuple[list[str], str, list[tuple[str, Value]]]:
    """Return the options of the model, the prompt, and the columns with their names."""
    found = [members(call.source, given.first, given.last) for given in call.arguments]
    listed = call.arguments[1:2] if len(found) == 2 and found[0] is not None and found[1] is None else ()
    if any(elements(call.source, one.first, one.last) for one in listed):
        raise call.error(
            f"it takes its columns in an object: write {{'context_columns': {call.text(call.arguments[1])}}}"
        )
    if len(found) < 2 or any(one is None for one in found):
        raise call.error(
            "it takes objects: {'model_name': 'default'}, {'prompt': 'a text', 'context_columns': [{'data': column}]}"
        )
    first, second, *others = [one or [] for one in found]
    columns = [(value.key, value) for one in others for value in one]
    prompt = "" if call.name == _EMBEDDING else None
    for value in second:
        match value.key.lower():
            case "prompt":
                prompt = _prompt(call, value)
            case "prompt_name":
                prompt = f"prompt => {_named(call, value, second)}"
            case "version":
                pass  # a part of the name
            case "context_columns":
                columns = [*_columns(call, value), *columns]
            case _ if call.name == _EMBEDDING:
                columns.append((value.key, value))
            case other:
                raise call.error(f"the prompt's key {other!r} has no counterpart here: leave it out")
    if prompt is None:
        raise call.error("the second object needs a 'prompt'")
    return _model(call, first), prompt, sorted(columns, key=lambda one: one[1].first)


def _named(call: VendorCall, value: Value, found: list[Value]) -> str:
    """Return the name of a prompt as a literal, such as `about@2` for version 2."""
    name = constant(call.source, value.first, value.last)
    if not isinstance(name, str):
        raise call.error("prompt_name must be a text literal: write 'prompt_name': 'name'")
    versions = [constant(call.source, one.first, one.last) for one in found if one.key.lower() == "version"]
    return text_literal(f"{name}@{versions[0]}" if versions else name)


def _prompt(call: VendorCall, value: Value) -> str:
    """Return the prompt as a literal; Flock's `{{name}}` refers to a column, as `{name}` does here."""
    text = constant(call.source, value.first, value.last)
    if not isinstance(text, str):
        raise call.error("the prompt must be a text literal: write ai_gen('a text', column)")
    return text_literal(our_prompt(text))


def _columns(call: VendorCall, value: Value) -> list[tuple[str, Value]]:
    """Return the columns of `[{'data': column, 'name': 'its name'}]`."""
    listed = elements(call.source, value.first, value.last)
    if listed is None:
        raise call.error("context_columns must be a list of objects: write [{'data': column, 'name': 'its name'}]")
    found = list[tuple[str, Value]]()
    for one in listed:
        given = {item.key.lower(): item for item in members(call.source, one.first, one.last) or ()}
        kind = constant(call.source, given["type"].first, given["type"].last) if "type" in given else "tabular"
        if "data" not in given or kind not in {"tabular", "text"}:
            raise call.error("a column needs 'data', and no function here reads images or sound: keep their text")
        if strange := given.keys() - {"data", "name", "type"}:
            raise call.error(f"the column's key {min(strange)!r} is not known here: write {{'data': a, 'name': 'a'}}")
        name = constant(call.source, given["name"].first, given["name"].last) if "name" in given else ""
        if not name and read_column(call.source.tokens[given["data"].first : given["data"].last]) is None:
            name = f"column{len(found) + 1}"
        found.append((str(name), given["data"]))
    return found


def _model(call: VendorCall, model: list[Value]) -> list[str]:
    found: list[str] = []
    for value in model:
        key, given = value.key.lower(), constant(call.source, value.first, value.last)
        if key in {"model_name", "model"}:
            if not isinstance(given, str):
                raise call.error("model_name must be a text literal")
            found.append(f"model => {text_literal(given)}")
        elif key == "model_parameters":
            found += options_of(call, given)
        elif key not in _PLUMBING:
            found += options_of(call, given, key)
    return found


def _ranked(call: VendorCall, model: list[str], prompt: str, columns: list[tuple[str, Value]]) -> str:
    """Return an aggregate that orders the rows of a group by `ai_score`, one call for each row."""
    if any(call.first < inner.first < call.closing for inner in find_calls(call.source)):
        raise call.error("it reads each value twice: compute the answer of the inner call in a subquery")
    values = [(_shown(call, name, value), written(call, value)) for name, value in columns]
    if not values:
        raise call.error("it needs columns: write 'context_columns': [{'data': column}]")
    row = ", ".join(f"{text_literal(name)}: {value}" for name, value in values)
    fields = ", ".join(f"{our_field(name)} => ({value})" for name, value in values)
    scored = ", ".join([f"ai_score({prompt}", fields, *model])
    return RANKED[call.name].replace("{0}", f"to_json({{{row}}})").replace("{1}", f"{scored})")


def _shown(call: VendorCall, name: str, value: Value) -> str:
    """Return the name of a column in the JSON object."""
    return name or call.source.tokens[value.last - 1].text


def _embedded(call: VendorCall, columns: list[tuple[str, Value]]) -> Iterator[Edit]:
    """Rewrite as `ai_embed`, which has the server's own model, whichever model the call names."""
    if not columns:
        raise call.error("it needs columns: write 'context_columns': [{'data': column}]")
    parts: list[str | Value] = ["ai_embed(concat_ws(' '"] if len(columns) > 1 else ["ai_embed("]
    for _, value in columns:
        parts += [", ", value] if len(columns) > 1 else [value]
    yield from around(call, [*parts, "))" if len(columns) > 1 else ")"])
