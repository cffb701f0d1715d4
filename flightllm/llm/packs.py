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
    return answers_constraint((constraint,) * len(codes), codes)


@lru_cache(maxsize=256)
def answers_constraint(constraints: tuple[Constraint, ...], codes: tuple[str, ...]) -> JsonSchema:
    """Return the constraint of an object that has, for each code, an answer under the constraint at the same place."""
    shared: dict[str, Any] = {}
    written: dict[Constraint, dict[str, Any]] = {}
    for constraint in constraints:
        if constraint in written:
            continue
        name = f"{ANSWER}{len(shared) + 1}" if shared else ANSWER
        schema, refers = _answer_schema(constraint, name)
        if refers or len(json.dumps(schema)) > _INLINE:
            shared[name] = schema
            schema = {"$ref": f"#/$defs/{name}"}
        written[constraint] = schema
    whole = {
        "type": "object",
        "properties": {code: written[constraint] for code, constraint in zip(codes, constraints, strict=True)},
        "required": list(codes),
        "additionalProperties": False,
        **({"$defs": shared} if shared else {}),
    }
    return JsonSchema(json.dumps(whole, ensure_ascii=False))


def _answer_schema(constraint: Constraint, name: str) -> tuple[dict[str, Any], bool]:
    """Return the schema of one answer for the definition `name`, and whether it refers to parts of itself."""
    match constraint:
        case Choice(options):
            return {"type": "string", "enum": list(options)}, False
        case Regex(pattern):
            return {"type": "string", "pattern": f"^(?:{pattern})$"}, False
        case JsonSchema(schema):
            document = json.loads(schema)
            moved = _moved(document, name)
            return moved, moved != document
        case _:
            return {"type": "string"}, False


def _moved(schema: Any, name: str) -> Any:
    """Return a schema whose references are right where the schema is the definition `name` of another one."""
    if isinstance(schema, list):
        return [_moved(part, name) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: f"#/$defs/{name}{value.removeprefix('#')}"
        if key == "$ref" and isinstance(value, str) and value.startswith("#")
        else _moved(value, name)
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
