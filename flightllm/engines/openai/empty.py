"""Find the answer of a chat completion that has no content, and learn which empty answers an endpoint gives each row.

Some endpoints put the answer in the place of the thought, or in the arguments of a tool. A thought is not an answer, so
only the constraint of the call can prove that such a text is the answer.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jsonschema import Draft202012Validator

from flightllm.engines.openai.answers import EndpointAnswer
from flightllm.engines.openai.coerced import coerced
from flightllm.engines.openai.marks import folded
from flightllm.engines.openai.reading import fits, read_schema, whole_option
from flightllm.engines.openai.strict import KEY, resolved, without_nulls
from flightllm.llm.engine import Choice, Constraint, JsonSchema, Regex

_ENOUGH: Final = 6
"""So many empty answers of one form, without another answer, can be the endpoint's way."""
_FIRST_SECONDS, _LATER_SECONDS = 0.3, 20.0
"""They must last until second tries, or as long as a disturbance of an endpoint that has given other answers."""
_PROSE: Final = "Hm, 1 thought: it {is} no answer.\nSo?"
"""A pattern that fits this text fits any text, and proves nothing."""
_WORDS: Final = re.compile(r"[^\W\d_]\S*\s+\S*[^\W\d_]|[^\W\d_]{4}")
"""Two words or a long one: a thought can look so."""


class EmptyAnswers:
    """The empty answers of one endpoint and model since its last answer with a text. Only one event loop uses it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._form = ""
        self._count = 0
        self._began = 0.0
        self._seconds = _FIRST_SECONDS

    def answered(self) -> None:
        """Note an answer with a text."""
        self._count, self._seconds = 0, _LATER_SECONDS

    def is_usual(self, form: str) -> bool:
        """Note an empty answer of a form; return whether the endpoint gives this form each time."""
        self._form, self._count = form, self._count + 1 if form == self._form else 1
        if self._count == 1:
            self._began = self._clock()
        return self._count >= _ENOUGH and self._clock() >= self._began + self._seconds


def proven(answer: EndpointAnswer, constraint: Constraint, *, wrapped: bool) -> EndpointAnswer:
    """Return an empty answer with the text beside the content if the constraint proves it; else the same answer.

    Texts that prove different answers prove none. `wrapped` is as for `read_constrained`.
    """
    found = [
        (text, read)
        for text in answer.texts_elsewhere
        if (read := _read(text, constraint, wrapped=wrapped)) is not None
    ]
    if len({read for _, read in found}) != 1:
        return answer
    text = found[0][0]
    thought = "" if text == answer.reasoning else answer.reasoning
    return replace(answer, text=text, error=None, passes=False, empty="", texts_elsewhere=(), reasoning=thought)


def advice(form: str) -> str:
    """Return what to change for an endpoint that gives each row an empty answer of a form."""
    if "arguments" in form:
        return "the endpoint makes the model call a tool: remove tools and tool_choice from extra_body and the server"
    if " has " in form:
        setting = json.dumps({"chat_template_kwargs": {"enable_thinking": False}})
        return f"set extra_body to {setting}, or start the server without a parser of thoughts"
    return "check the chat template of the model at the endpoint, or use another model"


def _read(text: str, constraint: Constraint, *, wrapped: bool) -> str | None:
    """Return the answer that a whole text is; None for a text that only contains an answer."""
    match constraint:
        case Choice(options):
            value = _value_of(text)
            return _equal_option(value, options) if isinstance(value, str) else whole_option(json.dumps(value), options)
        case Regex(pattern):
            value = _value_of(text)
            said = value.strip() if isinstance(value, str) else json.dumps(value)
            return said if fits(pattern, said) and not _fits_prose(pattern, said) else None
        case JsonSchema(schema):
            return _json(text, read_schema(schema), wrapped=wrapped)
        case None:
            return None


def _value_of(text: str) -> str | bool | float:
    """Return the value of a JSON object with no key but the one that requests name, else the text."""
    document = _document(text)
    if isinstance(document, dict) and document.keys() == {KEY} and isinstance(document[KEY], str | bool | int | float):
        value: str | bool | float = document[KEY]
        return value
    return text


def _equal_option(text: str, options: Sequence[str]) -> str | None:
    """Return the option equal to a text, apart from case and surrounding marks: thoughts begin with such words."""
    if text.strip() in options:
        return text.strip()
    found = [option for option in options if folded(option) == folded(text)]
    return found[0] if len(found) == 1 else None


def _fits_prose(pattern: str, said: str) -> bool:
    """Return whether a pattern also fits prose, or other letters in place of a text's words."""
    if fits(pattern, _PROSE):
        return True
    other = "".join(chr(ord(one) + (-1 if one in "zZ" else 1)) if one.isalpha() else one for one in said)
    return _WORDS.search(said) is not None and fits(pattern, other)


def _json(text: str, schema: Any, *, wrapped: bool) -> str | None:
    value = _document(text)
    if wrapped and isinstance(value, dict) and set(value) == {KEY}:
        value = value[KEY]
    value = coerced(without_nulls(value, schema), schema)
    if not value or not _has_form(value, resolved(schema, schema)):
        return None
    try:
        valid = Draft202012Validator(schema).is_valid(value)
    except (re.error, RecursionError):
        return None  # a pattern that only the engine supports
    return json.dumps(value, ensure_ascii=False) if valid else None


def _has_form(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value has only the schema's keys, or is a list for a list's schema; others prove too little."""
    if isinstance(value, dict) and (properties := schema.get("properties")):
        return set(value) <= set(properties)
    return isinstance(value, list) and schema.get("type") == "array"


def _document(text: str) -> Any:
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```"):
        stripped = stripped.strip("`").removeprefix("json")
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        return None
