"""Rewrite BigQuery's functions that return a table: one answer for each row of a query, in a subquery of FROM."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from flightllm.common.names import quoted
from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall, is_table_function
from flightllm.dialect.vendors.objects import Value, constant, elements
from flightllm.dialect.vendors.options import options_of
from flightllm.dialect.vendors.pieces import around
from flightllm.functions.base import Literal
from flightllm.functions.type_schemas import schema_of_columns
from flightllm.sql.arguments import read_column, read_constant, split_arguments
from flightllm.sql.literals import text_literal
from flightllm.sql.tokens import TokenKind

_EMBEDDED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ml.generate_embedding": ("ml_generate_embedding_result", "ml_generate_embedding_status"),
        "ml.generate_text_embedding": ("text_embedding", "ml_embed_text_status"),
        "ai.generate_embedding": ("embedding", "status"),
    }
)
"""For each function that returns vectors, the columns of the vectors and of their status."""
NAMES = ("ml.generate_text", "ai.generate_text", "ml.generate_table", "ai.generate_table", *_EMBEDDED)
_PLUMBING = ("flatten_json_output", "output_schema", "request_type", "max_error_ratio", "safety_settings")
"""Keys that this module reads itself, or that say only how a vendor reaches a model."""
_OPTIONS = (
    *("temperature", "max_output_tokens", "max_tokens", "top_p", "seed", "system_instruction", "model_params"),
    *("generation_config", "labels", "thinking_budget"),
)
_MISSING = (
    "usagemetadata",
    "finishreason",
    "safetyratings",
    "safetyattributes",
    "avglogprobs",
    "modelversion",
    "createtime",
)
"""Parts of a response of Gemini's models that a text of the answer does not have."""
_JOINED = ("join", "left", "right", "inner", "full", "natural", "using")
_STATUS = "coalesce(__answer.error, '')"
_JSON = (
    """CASE WHEN __answer.value IS NOT NULL THEN '{"candidates": [{"content": {"role": "model", "parts": ['"""
    " || __json_object(['text'], [__json_text(__answer.value, 'Utf8')]) || ']}}]}' END"
)
"""The JSON that Gemini's models return around their text."""
_OLD_JSON = (
    """CASE WHEN __answer.value IS NOT NULL THEN '{"predictions": ['"""
    " || __json_object(['content'], [__json_text(__answer.value, 'Utf8')]) || ']}' END"
)
"""The JSON of older models, for a statement that reads it."""
_STRUCT = "named_struct('candidates', [named_struct('content', named_struct('parts', [named_struct('text', {0})]))])"
_OLD_STRUCT = "named_struct('predictions', [named_struct('content', {0})])"
"""The same as structs, for a statement with a path after the column."""


class _Read(NamedTuple):
    """The model's name, the query in parentheses or the table, and the options of a call."""

    model: str
    rows: Value
    options: Mapping[str, Literal]


def returns_rows(call: VendorCall) -> bool:
    """Return whether a call is one of `NAMES`, with a model or in FROM."""
    if call.name not in NAMES:
        return False
    return call.name != "ai.generate_text" or _has_model(call) or _is_in_from(call)


def table(call: VendorCall) -> Iterator[Edit]:
    """Rewrite `FROM AI.GENERATE_TEXT(MODEL m, (SELECT a AS prompt FROM t))` as a subquery with `ai_gen(prompt)`.

    The subquery has the answer, its status, which is an empty text or an error, and the columns of the query.

    Raises:
        SqlError: an option has no counterpart, or the call is not in FROM; the message says what to write.
    """
    if not _is_in_from(call):
        ours = "ai_embed" if call.name in _EMBEDDED else "ai_gen"
        raise call.error(f"it returns a table, so it must be in FROM; in SELECT write {ours}({_asked(call)})")
    given = _read(call)
    if (columns_of := _EMBEDDED.get(call.name)) is not None:
        _check_vectors(call, given.options)
        vector, status = columns_of
        opened = f"(SELECT ai_embed(content) AS {vector}, '' AS {status}, * FROM "
        yield from around(call, [opened, given.rows, f" AS __asked){_alias(call)}"])
        return
    options, answers = _options(call, given.options), _answers(call, given.options)
    if answers.schema:
        options.append(f"response_format => {text_literal(answers.schema)}")
    asked = ", ".join(["prompt", f"model => {text_literal(given.model)}", *options, "on_error => 'struct'"])
    columns = ", ".join([*answers.columns, "* EXCEPT (__answer)"])
    opened = f"(SELECT {columns} FROM (SELECT *, ai_gen({asked}) AS __answer FROM "
    yield from _prompt(
        call, around(call, [opened, given.rows, f" AS __asked) AS __answered){_alias(call)}"]), given.rows
    )


def _alias(call: VendorCall) -> str:
    """Return a name for the rows of a call before a join, because USING needs a name."""
    source, after = call.source, call.closing + 1
    if after >= len(source.tokens) or not source.is_word(after, *_JOINED):
        return ""
    return " AS __generated"


class _Answers(NamedTuple):
    """The columns with the answers, and their JSON Schema, which is an empty text for plain answers."""

    columns: list[str]
    schema: str = ""


def _answers(call: VendorCall, options: Mapping[str, Literal]) -> _Answers:
    if call.name.endswith(".generate_table"):
        columns = options.get("output_schema")
        schema = schema_of_columns(columns) if isinstance(columns, str) else None
        if schema is None:
            raise call.error("output_schema must list columns with types: write STRUCT('city STRING' AS output_schema)")
        names = [quoted(name) for name in json.loads(schema)["properties"]]
        return _Answers([*(f"__answer.value.{name} AS {name}" for name in names), f"{_STATUS} AS status"], schema)
    if call.name == "ai.generate_text":
        return _Answers(["__answer.value AS result", f"{_STATUS} AS status"])
    status = f"{_STATUS} AS ml_generate_text_status"
    if options.get("flatten_json_output") is True:
        return _Answers(["__answer.value AS ml_generate_text_llm_result", status])
    _check_paths(call)
    is_old, has_path = "predictions" in call.source.sql, _has_path(call)
    answer = (_OLD_STRUCT if is_old else _STRUCT) if has_path else _OLD_JSON if is_old else _JSON
    return _Answers([f"{answer.replace('{0}', '__answer.value')} AS ml_generate_text_result", status])


def _check_vectors(call: VendorCall, options: Mapping[str, Literal]) -> None:
    """Raise `SqlError` for an option that would give other columns or other vectors."""
    if options.get("flatten_json_output") is False:
        raise call.error("flatten_json_output must be TRUE: the vector has a column of its own")
    for name in options:
        if name not in {"flatten_json_output", "task_type"}:
            raise call.error(f"{name} has no counterpart here: leave it out")


def _check_paths(call: VendorCall) -> None:
    """Raise `SqlError` for a JSON path to a part of the response that is not here, as it would give NULL."""
    for at, token in enumerate(call.source.tokens):
        path = token.text.lower().replace("_", "") if token.kind is TokenKind.STRING else ""
        is_path = path.startswith("$") or call.source.is_symbol(at - 1, "[")
        if is_path and any(part in path for part in _MISSING):
            raise call.error(f"the response has no {token.text} here: leave it out; system.queries has the tokens")


def _has_path(call: VendorCall) -> bool:
    """Return whether the text has a path such as `ml_generate_text_result['candidates']`."""
    source = call.source
    return any(
        token.text.lower() == "ml_generate_text_result"
        and (source.is_symbol(at + 1, "[") or source.is_symbol(at + 1, "."))
        for at, token in enumerate(source.tokens)
    )


def _has_model(call: VendorCall) -> bool:
    first = call.positional(0)
    return first is not None and first.last > first.first + 1 and call.source.is_word(first.first, "model")


def _is_in_from(call: VendorCall) -> bool:
    return is_table_function(call.source, call.first, call.opening)


def _read(call: VendorCall) -> _Read:
    found = [call.positional(place) for place in range(3)]
    model, rows, options = found
    if model is None or rows is None or not _has_model(call):
        raise call.error("it takes a model and a query: write (MODEL name, (SELECT text AS prompt FROM t), STRUCT(…))")
    source = call.source
    name = "".join(token.text for token in source.tokens[model.first + 1 : model.last])
    if source.is_word(rows.first, "table"):
        value = Value(rows.first + 1, rows.last)
    elif source.is_symbol(rows.first, "(") and source.closing.get(rows.first) == rows.last - 1:
        value = Value(rows.first, rows.last)
    else:
        raise call.error("its second argument must be TABLE name or a query in parentheses: write (SELECT … AS prompt)")
    return _Read(name, value, {} if options is None else _struct(call, options))


def _struct(call: VendorCall, given: Given) -> dict[str, Literal]:
    """Return the values by the names of `STRUCT(0.2 AS temperature, 'text' AS prompt)`."""
    source = call.source
    if not source.is_word(given.first, "struct") or source.closing.get(given.first + 1) != given.last - 1:
        raise call.error("its third argument must be STRUCT(value AS name, …)")
    found = dict[str, Literal]()
    for start, end in split_arguments(source.tokens, given.first + 2, given.last - 1, source.closing):
        if end - start < 3 or not source.is_word(end - 2, "as"):
            raise call.error("each option of STRUCT needs a name: write STRUCT(0 AS temperature)")
        name = source.tokens[end - 1].text.lower()
        if name == "prompt" and read_column(source.tokens[start : end - 2]) is not None:
            raise call.error(f"the query must have the prompt: write (SELECT *, {source.text(start, end)} FROM t)")
        found[name] = _constant(call, start, end - 2)
    return found


def _constant(call: VendorCall, start: int, end: int) -> Literal:
    """Return a constant, or adjacent text literals as one text."""
    tokens = call.source.tokens[start:end]
    if len(tokens) > 1 and all(token.kind is TokenKind.STRING for token in tokens):
        return "".join(token.text for token in tokens)
    if elements(call.source, start, end) is not None:
        return "a list"
    value = constant(call.source, start, end)
    if value is None and read_constant(tokens) is None:
        raise call.error("the options of STRUCT must be constants")
    return value


def _options(call: VendorCall, options: Mapping[str, Literal]) -> list[str]:
    found: list[str] = []
    for key, value in options.items():
        if key in _PLUMBING or value is None or value is False:
            continue
        if key in {"prompt", "content"}:
            raise call.error("no function here reads files: keep their text in a column, and write SELECT … AS prompt")
        if key not in _OPTIONS:
            raise call.error(f"{key} has no counterpart here: leave it out")
        found += options_of(call, value, key)
    return found


def _prompt(call: VendorCall, edits: Iterator[Edit], rows: Value) -> Iterator[Edit]:
    """Also join the parts of `('Sum up: ', body) AS prompt` in the query."""
    yield from edits
    source = call.source
    for at in range(rows.first + 1, rows.last - 2):
        if not (source.is_word(at + 1, "as") and source.is_word(at + 2, "prompt") and source.is_symbol(at, ")")):
            continue
        opening = next((first for first, last in source.closing.items() if last == at), at)
        items = list(split_arguments(source.tokens, opening + 1, at, source.closing))
        is_tuple = opening > rows.first and source.begins_expression(opening) and len(items) > 1
        for (_, end), (start, _) in pairwise(items) if is_tuple else ():
            yield Edit(source.tokens[end - 1].end, source.tokens[start].start, " || ")


def _asked(call: VendorCall) -> str:
    """Return the prompt that a call outside of FROM has."""
    given = call.positional(1)
    if given is None:
        return "prompt"
    source, first, last = call.source, given.first, given.last
    if source.is_word(first, "struct") and source.closing.get(first + 1) == last - 1:
        first, last = next(split_arguments(source.tokens, first + 2, last - 1, source.closing), (first, last))
    last -= 2 * source.is_word(last - 2, "as")
    return source.text(first, last)
