"""Read the answer to a pack: the entries that it has, also of an answer that is cut or badly written."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from flightllm.llm.engine import Constraint, JsonSchema

_BEGIN: Final = re.compile(r"[\[{]")
_KEY: Final = re.compile(r'[\s,{]*("(?:[^"\\]|\\.)*")\s*:\s*')
_END: Final = re.compile(r"\s*[,}]")
_AROUND: Final = " \t\r\n[](){}<>#:.\"'`"
"""Characters that models write around a code."""
_MOST_BEGINS: Final = 32
"""The most brackets at which the answer is looked for."""
_NAMES: Final = frozenset({"row", "question", "code", "id"})
"""Keys under which models put a code."""
_LISTS: Final = ("answers", "rows", "results")
"""Keys under which models put the object of the answers."""


class _Object(list[tuple[str, Any]]):
    """A JSON object as pairs, so that a repeated key is seen."""


@dataclass(frozen=True, slots=True)
class PackReading:
    """The answers of a pack, as texts by the place of their question, and whether the whole answer was read.

    A place is missing if the model left its code out, gave it two answers, or gave it an empty one.
    """

    texts: Mapping[int, str]
    whole: bool


def read_pack(text: str, codes: Sequence[str], constraints: Sequence[Constraint]) -> PackReading:
    """Return the answers in a model's answer to a pack whose questions have these codes and constraints.

    An answer belongs to the question whose code it repeats, wherever it stands. Codes of no question are ignored.
    """
    places = {code: place for place, code in enumerate(codes)}
    entries, whole = _entries(text, places)
    found: dict[int, str] = {}
    unclear: set[int] = set()
    for place, value in entries:
        answer = _text(value, constraints[place])
        if answer is None or found.setdefault(place, answer) != answer:
            unclear.add(place)
    return PackReading({place: answer for place, answer in found.items() if place not in unclear}, whole)


def _entries(text: str, places: Mapping[str, int]) -> tuple[list[tuple[int, Any]], bool]:
    """Return places and values in the order of the text, and whether the text is a whole answer."""
    decoder = json.JSONDecoder(object_pairs_hook=_Object, parse_constant=_refused, strict=False)
    found: list[tuple[int, Any]] = []
    end = 0
    for begin in islice(_BEGIN.finditer(text), _MOST_BEGINS):  # a model can think aloud about the form at first
        if begin.start() < end:
            continue
        try:
            value, last = decoder.raw_decode(text, begin.start())
            pairs, whole = _pairs(value), True
        except (ValueError, RecursionError):
            pairs, whole = list(_salvaged(text, decoder, begin.start())), False
        known = [(place, value) for code, value in pairs if (place := places.get(_code(code))) is not None]
        found += known
        if known and not whole:
            return found, False
        if known:
            end = last  # a later object can correct this one, which then was a draft or an example
    return found, bool(found)


def _code(text: str) -> str:
    """Return a code without the characters around it, and without the word for rows or questions."""
    return text.strip(_AROUND).upper().removeprefix("ROW").removeprefix("QUESTION").strip(_AROUND)


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Return the codes and values of an object, of the objects in a list, or of those under a key such as `answers`."""
    if isinstance(value, _Object):
        return _pairs(value[0][1]) if len(value) == 1 and value[0][0].lower() in _LISTS else list(value)
    if not isinstance(value, list):
        return []
    return [pair for part in value if isinstance(part, _Object) for pair in (_entry(part) or part)]


def _entry(value: _Object) -> list[tuple[str, Any]]:
    """Return the pair of an object that has the code as the value of its first key; empty for other objects."""
    if len(value) != 2 or not isinstance(value[0][1], str) or value[0][0].lower() not in _NAMES:
        return []
    return [(value[0][1], value[1][1])]


def _salvaged(text: str, decoder: json.JSONDecoder, start: int) -> Iterator[tuple[str, Any]]:
    """Yield the pairs of an object before the place where a text stops being JSON."""
    if text[start] != "{":
        return
    while (key := _KEY.match(text, start)) is not None:
        try:
            name = json.loads(key.group(1), strict=False)
            value, start = decoder.raw_decode(text, key.end())
        except (ValueError, RecursionError):
            return
        if _END.match(text, start) is None:
            return  # the value is cut, or goes on after a quote that the model left bare
        yield name, value


def _text(value: Any, constraint: Constraint) -> str | None:
    """Return a value as the text of a single answer; None if the value cannot be an answer."""
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(constraint, JsonSchema):
        return json.dumps(_plain(value), ensure_ascii=False)
    if value is None or isinstance(value, list):  # also an object
        return None
    return json.dumps(value)


def _plain(value: Any) -> Any:
    """Return a value with dictionaries for its objects."""
    if isinstance(value, _Object):
        return {key: _plain(part) for key, part in value}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
