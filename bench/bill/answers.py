"""Answers by a rule from the prompt: they fit the schema, and do not depend on the order of the prompt's parts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

_LONG_WORD: Final = re.compile(r"[A-Za-z]{7,}")
_WORDS: Final = ("a", "calm", "and", "clear", "story", "about", "two", "people", "who", "want", "the", "same", "thing")
_OFFERED: Final = re.compile(r"one of these(?: texts| and nothing else)?: (.+?)\.?$", re.MULTILINE)
_LEAST_WORDS, _FURTHER_WORDS = 4, 5
_MOST_ITEMS: Final = 2
_FULL_RANGE: Final = 10
_SURER: Final = 0.01


def seed(texts: Sequence[str]) -> int:
    """Return a number that depends only on which long words the texts have."""
    words = {word.lower() for text in texts for word in _LONG_WORD.findall(text)}
    return int.from_bytes(blake2b(" ".join(sorted(words)).encode(), digest_size=8).digest(), "big")


def options_of(schema: Mapping[str, Any] | None, said: str) -> Sequence[str]:
    """Return the options that a prompt offers for its answer; empty for other prompts."""
    for one in [] if schema is None else schema.get("properties", {}).values():
        if all(isinstance(option, str) for option in one.get("enum", [None])):
            found: Sequence[str] = one["enum"]
            return found
    if schema is None and (offered := _OFFERED.findall(said)):
        return [json.loads(f'"{option}"') for option in _quoted(offered[-1])]
    return ()


def _quoted(offered: str) -> Sequence[str]:
    found: Sequence[str] = re.findall(r'"((?:[^"\\]|\\.)*)"', offered)
    return found


def log_probabilities(text: str, options: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the log probabilities of an answer that is one of some options, in OpenAI's form; else None.

    The text around the option is sure. The option is hardly more probable than the others: answers are by chance.
    """
    chosen = next((option for option in sorted(options, key=len, reverse=True) if option in text), None)
    if chosen is None:
        return None
    before, _, after = text.partition(chosen)
    share = 1.0 / len(options)
    chances = {
        option: share + (_SURER if option == chosen else -_SURER / max(1, len(options) - 1)) for option in options
    }
    steps: list[tuple[str, Mapping[str, float]]] = [(before, {before: 1.0}), (chosen, chances), (after, {after: 1.0})]
    return [
        {"token": token, "logprob": math.log(of[token]), "bytes": list(token.encode()), "top_logprobs": _listed(of)}
        for token, of in steps
        if token
    ]


def _listed(chances: Mapping[str, float]) -> list[dict[str, Any]]:
    return [
        {"token": token, "logprob": math.log(chance), "bytes": list(token.encode())}
        for token, chance in chances.items()
    ]


def answer(schema: Mapping[str, Any] | None, said: str, number: int, *, as_object: bool = False) -> str:
    """Return the answer to a prompt: by its schema, else by the options that its words offer, else free text.

    `as_object` says that the request wants a JSON object without a schema.
    """
    if schema is not None:
        return json.dumps(_value(schema, schema, number))
    offered = _OFFERED.findall(said)
    chosen = _free(number)
    if offered:
        options = _quoted(offered[-1])
        chosen = json.loads(f'"{options[number % len(options)]}"') if options else chosen
    elif (place := said.find("JSON Schema: ")) >= 0:
        told, _ = json.JSONDecoder().raw_decode(said, place + len("JSON Schema: "))
        return json.dumps(_value(told, told, number))
    return json.dumps({"answer": chosen}) if as_object else chosen


def _free(number: int) -> str:
    words = _LEAST_WORDS + number % _FURTHER_WORDS
    return " ".join(_WORDS[(number + at) % len(_WORDS)] for at in range(words))


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], number: int) -> Any:
    """Return a value that fits a JSON Schema."""
    if "$ref" in schema:
        return _value(root.get("$defs", {})[schema["$ref"].rpartition("/")[2]], root, number)
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], root, number)
    kind = schema.get("type", "object")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            of = schema.get("properties", {})
            return {name: _value(one, root, number // 3**place) for place, (name, one) in enumerate(of.items())}
        case "array":
            return [_value(schema.get("items", {}), root, number // 7**at) for at in range(1, 1 + _MOST_ITEMS)]
        case "integer" | "number":
            low, high = schema.get("minimum", 0), schema.get("maximum", _FULL_RANGE)
            return low + number % (int(high - low) + 1)
        case "boolean":
            return number % 2 == 0
        case "null":
            return None
        case _:
            return _free(number)
