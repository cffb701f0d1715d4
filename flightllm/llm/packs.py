"""Packs: several questions that share one request, each under a code that the model repeats beside its answer."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import count as _count
from typing import Any, Final

from flightllm.llm.engine import Choice, Constraint, JsonSchema, Parameters, Regex

ENTRY_TOKENS: Final = 16
"""The most tokens that a row's part of an answer needs beside its answer: the code, quotes and a comma."""
ANSWER: Final = "answer"
"""The name of the schema of one answer, where a pack's schema refers to it."""
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Letters without vowels, so that no code is a word."""
_SHORTEST: Final = 3
_TRIES: Final = 256
"""The codes of one length that are tried before longer ones."""
_INLINE: Final = 64
"""A schema of more characters is written once, and referred to."""


def pack_parameters(parameters: Parameters, codes: tuple[str, ...]) -> Parameters:
    """Return the parameters of a pack of questions with `parameters`: an object of the answers by code."""
    return replace(parameters, constraint=pack_constraint(parameters.constraint, codes))


@lru_cache(maxsize=256)
def pack_constraint(constraint: Constraint, codes: tuple[str, ...]) -> JsonSchema:
    """Return the constraint of a pack's answer: an object with an answer under `constraint` for each code.

    Packs of the same number of rows nearly always have the same codes, and so the same schema: endpoints compile each
    new schema for seconds.
    """
    inner = _answer_schema(constraint)
    shared = {}
    if inner[1] or len(json.dumps(inner[0])) > _INLINE:
        shared = {"$defs": {ANSWER: inner[0]}}
    one = {"$ref": f"#/$defs/{ANSWER}"} if shared else inner[0]
    whole = {
        "type": "object",
        "properties": dict.fromkeys(codes, one),
        "required": list(codes),
        "additionalProperties": False,
        **shared,
    }
    return JsonSchema(json.dumps(whole, ensure_ascii=False))


def _answer_schema(constraint: Constraint) -> tuple[dict[str, Any], bool]:
    """Return the schema of one answer, and whether it refers to parts of itself."""
    match constraint:
        case Choice(options):
            return {"type": "string", "enum": list(options)}, False
        case Regex(pattern):
            return {"type": "string", "pattern": f"^(?:{pattern})$"}, False
        case JsonSchema(schema):
            document = json.loads(schema)
            moved = _moved(document)
            return moved, moved != document
        case _:
            return {"type": "string"}, False


def _moved(schema: Any) -> Any:
    """Return a schema whose references are right where the schema is a definition of another one."""
    if isinstance(schema, list):
        return [_moved(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{ANSWER}{value.removeprefix('#')}"
        if key == "$ref" and isinstance(value, str) and value.startswith("#")
        else _moved(value)
        for key, value in schema.items()
    }


def codes_of(count: int, texts: Iterable[str]) -> tuple[str, ...]:
    """Return as many different codes, such as `KQB`, none of which is in the texts.

    So no value of a row can pass for another row. Other texts nearly always have the same codes.
    """
    shown = "\n".join(texts).upper()
    codes: list[str] = []
    for number in _count():
        if len(codes) == count:
            break
        code = _code(number)
        if code not in shown and code not in codes:
            codes.append(code)
    return tuple(codes)


@lru_cache(maxsize=4_096)
def _code(number: int) -> str:
    digest, code = int.from_bytes(blake2b(number.to_bytes(8), digest_size=32).digest()), ""
    for _ in range(_SHORTEST + number // _TRIES):
        digest, place = divmod(digest, len(_LETTERS))
        code += _LETTERS[place]
    return code


def pack_answer(answers: Iterable[tuple[str, str, Constraint]]) -> str:
    """Return the answer of a model that answers each question of a pack: code, answer as text, and its constraint."""
    return json.dumps({code: _value(text, constraint) for code, text, constraint in answers}, ensure_ascii=False)


def _value(text: str, constraint: Constraint) -> Any:
    with suppress(ValueError):
        return json.loads(text) if isinstance(constraint, JsonSchema) else text
    return text
