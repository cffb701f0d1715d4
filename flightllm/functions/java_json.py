"""Read JSON texts as Spark does: values at a path have no spaces, and numbers have the texts of Java."""

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import pyarrow as pa

from flightllm.functions.own import OwnFunction
from flightllm.functions.value_texts import java_text

JAVA_JSON, JAVA_KEYS = "__java_json", "__java_keys"
"""The names of the functions in SQL."""
_STEP: Final = re.compile(r"\.([^.\[\]*]+)|\[\s*(\d+)\s*\]|\[\s*'([^'?]+)'\s*\]|\[\s*(\*)\s*\]|\.(\*)")
_TEXTS: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'((?:[^'\\]|\\.)*)'""")
_NAMES: Final = "."
_ALL: Final = "*"
_Pairs = tuple[str, Sequence[tuple[str, object]]]


def json_at(texts: pa.Array, paths: pa.Array) -> pa.Array:
    """Return the value at a path as a text, and JSON for objects and lists; NULL for no value or no JSON."""
    rows = zip(texts.to_pylist(), paths.to_pylist(), strict=True)
    return pa.array([_read(text, path, _at) for text, path in rows], pa.string())


def java_keys(texts: pa.Array) -> pa.Array:
    """Return the names in JSON objects; NULL for other texts."""
    found = [_read(text, "$", lambda value, _: _keys(value)) for text in texts.to_pylist()]
    return pa.array(found, pa.list_(pa.string()))


def _keys(value: object) -> list[str] | None:
    return [name for name, _ in value[1]] if _is_object(value) else None  # type: ignore[index]


def _read(text: str | None, path: str | None, read: Callable[[object, list[str | int]], object]) -> object:
    steps = None if text is None or path is None else _steps(path)
    if steps is None:
        return None
    try:
        value, _ = _DECODER.raw_decode(str(text).lstrip())
    except (ValueError, RecursionError):
        if "'" not in str(text):
            return None
        try:
            value, _ = _DECODER.raw_decode(_TEXTS.sub(_in_double, str(text).lstrip()))
        except (ValueError, RecursionError):
            return None
    return read(value, steps)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=lambda pairs: (_NAMES, pairs), strict=False)
"""Keeps the order and the repeated names of objects."""


def _in_double(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else json.dumps(found[1].replace("\\'", "'"))


@lru_cache(maxsize=256)
def _steps(path: str) -> list[str | int] | None:
    """Return names, places and stars; None for a path that Spark cannot read."""
    if not path.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or found[5]:
            return None
        name = found[1] or found[3]
        steps.append(f"{_NAMES}{name}" if name else int(found[2]) if found[2] else _ALL)
        at = found.end()
    return steps


def _at(value: object, steps: list[str | int]) -> str | None:
    found = _values(value, steps)
    if not found or (len(found) == 1 and found[0] is None):
        return None
    if _ALL not in steps:
        return found[0] if isinstance(found[0], str) else _written(found[0])
    return _written(found[0] if len(found) == 1 else found)


def _values(value: object, steps: list[str | int]) -> list[object]:
    """Return the values at a path: one, or many for a star."""
    for place, step in enumerate(steps):
        if step == _ALL:
            items = value if isinstance(value, list) else []
            return [one for item in items for one in _values(item, steps[place + 1 :])]
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return []
            value = value[step]
        else:
            pairs = value[1] if _is_object(value) else ()  # type: ignore[index]
            named = [one for name, one in pairs if name == step[1:]]
            if not named:
                return []
            value = named[0]
    return [value]


def _is_object(value: object) -> bool:
    return isinstance(value, tuple)


def _written(value: object) -> str:
    if isinstance(value, tuple):
        return f"{{{','.join(f'{_text(name)}:{_written(one)}' for name, one in value[1])}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, str):
        return _text(value)
    return java_text(value) if isinstance(value, float) else json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


FUNCTIONS: Final = (
    OwnFunction(json_at, (pa.string(), pa.string()), pa.string(), JAVA_JSON),
    OwnFunction(java_keys, (pa.string(),), pa.list_(pa.string()), JAVA_KEYS),
)
