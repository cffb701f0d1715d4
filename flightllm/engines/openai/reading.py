"""Find the answer in an unconstrained text of a model: an option, JSON, or a text that matches a pattern.

An unclear answer is not guessed: a text that names several options, or has several JSON values, has no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.engines.openai.strict import KEY, without_nulls
from flightllm.llm.engine import Choice, Constraint, JsonSchema, Regex

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_LEAD = re.compile(
    r"(?:(?:the|my|final|best|correct) )*(?:answer|label|category|class|classification|choice|option|result|score"
    r"|rating|sentiment|value|number|verdict)(?: is)?\s*[:=]?\s*",
    re.IGNORECASE,
)
_ENDS = " \t\r\n.!,;:\"'`*_()[]“”‘’"
_MOST_TRIES = 32
_MOST_CHARS = 100_000


def read_constrained(text: str, constraint: Constraint, *, wrapped: bool) -> str | None:
    """Return the answer in a text, in the format of the constraint; None if there is no answer, or an unclear one.

    With `wrapped`, the model was asked for a JSON object that contains the answer.
    """
    match constraint:
        case Choice(options):
            return _choice(text, options)
        case JsonSchema(schema):
            return _json(text, read_schema(schema), wrapped=wrapped)
        case Regex(pattern):
            return next((one for one in _bare(text) if _fits(pattern, one)), None)
        case None:
            return text


@lru_cache(maxsize=256)
def read_schema(schema: str) -> Any:
    """Return a parsed schema; cached, because all answers of a call share it. The caller must not change the result."""
    return json.loads(schema)


def _choice(text: str, options: Sequence[str]) -> str | None:
    stripped = text.strip()
    if stripped in options:
        return stripped
    for candidate in _bare(text):
        if (found := _option(candidate, options)) is not None:
            return found
    return _first_words(text, options)


def _bare(text: str) -> Iterator[str]:
    """Yield candidates for the answer in a text: the text, the value of its JSON, the text without lead and marks."""
    stripped = text.strip()
    yield stripped
    values = _values(text)
    if values:
        yield from _named(values[0]) if len(values) == 1 else ()
        return
    plain = stripped.strip(_ENDS)
    yield plain
    lines = [line.strip(_ENDS) for line in stripped.splitlines() if line.strip(_ENDS)]
    for line in dict.fromkeys([plain, *lines[-1:]]):
        cleaned = line.replace("**", "").replace("__", "")
        lead = _LEAD.match(cleaned)
        if lead is not None:
            yield cleaned[lead.end() :].strip(_ENDS)


def _named(value: Any) -> Iterator[str]:
    """Yield the text of a JSON value: of the value itself, of its key `answer`, or of its only key."""
    if isinstance(value, dict):
        value = value.get(KEY, next(iter(value.values())) if len(value) == 1 else None)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    match value:
        case bool():
            yield "Yes" if value else "No"
        case str():
            yield value.strip()
        case int():
            yield str(value)
        case float():
            yield f"{value:g}"


def _option(text: str, options: Sequence[str]) -> str | None:
    """Return the option equal to a text, except for case, surrounding marks and the format of numbers."""
    if text in options:
        return text
    folded = _fold(text)
    found = [option for option in options if _fold(option) == folded]
    if len(found) == 1:
        return found[0]
    number = _number(text)
    same = [option for option in options if number is not None and _number(option) == number]
    return same[0] if len(same) == 1 else None


def _first_words(text: str, options: Sequence[str]) -> str | None:
    """Return the option that is a text's first sentence, if the rest names no other option."""
    stripped = text.strip().lstrip(_ENDS)
    if len(stripped) > _MOST_CHARS:
        return None
    named = _named_options(stripped, options)
    if len(named) != 1:
        return None
    begun = re.match(re.escape(named[0]) + r"[*_\"'`”’)]*\s*(?:[.,:;!\n—–-]|$)", stripped, re.IGNORECASE)
    return named[0] if begun is not None else None


def _named_options(text: str, options: Sequence[str]) -> list[str]:
    """Return the options that occur as words; of an option inside a longer option, only the longer one."""
    left, found = text, []
    for option in sorted(options, key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(option)}(?!\w)", re.IGNORECASE)
        if option and pattern.search(left):
            found.append(option)
            left = pattern.sub("\0", left)
    return found


def _json(text: str, schema: Any, *, wrapped: bool) -> str | None:
    values = list(_values(text))
    if len(values) != 1:
        return None
    value = values[0]
    if wrapped and isinstance(value, dict) and set(value) == {KEY}:
        value = value[KEY]
    cleaned = without_nulls(value, schema)
    if cleaned == value and text.strip()[:1] in {"{", "["} and not wrapped and _loaded(text.strip()) == [value]:
        return text
    return json.dumps(cleaned, ensure_ascii=False)


def _values(text: str) -> list[Any]:
    """Return the JSON values in a text: the whole text, else those in code fences, else its objects and lists."""
    stripped = text.strip()
    if found := _loaded(stripped):
        return found
    fenced = [value for block in _FENCE.findall(stripped[:_MOST_CHARS]) for value in _loaded(block.strip())]
    return fenced or list(_within(stripped))


def _within(text: str) -> Iterator[Any]:
    decoder, place = json.JSONDecoder(), 0
    for _ in range(_MOST_TRIES):
        begun = re.compile(r"[{\[]").search(text, place)
        if begun is None:
            return
        try:
            value, place = decoder.raw_decode(text, begun.start())
        except (ValueError, RecursionError):
            place = begun.end()
        else:
            yield value


def _loaded(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return []


def _fold(text: str) -> str:
    return " ".join(text.strip(_ENDS).casefold().split())


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern, by RE2, whose time is linear in the text's length."""
    try:
        return bool(pc.match_substring_regex(pa.scalar(text, pa.string()), pattern=f"^(?:{pattern})$").as_py())
    except pa.ArrowInvalid:
        return True  # only the engine supports this pattern
