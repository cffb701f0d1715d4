"""Labels and their meanings, in all forms in which SQL can give them.

The forms are `['a', 'b']`, `{'a': 'its meaning'}`, BigQuery's `[('a', 'its meaning')]`, and Snowflake's `[{'label':
'a', 'description': 'its meaning', 'examples': ['a text']}]`. Databricks passes one of these forms as JSON text.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flightllm.common.text import excerpt, well_formed_value
from flightllm.errors import AICallError
from flightllm.functions.base import Entries, Literal

_OF_LABEL = ("label", "description", "examples")


def read_labels(value: Literal, name: str) -> Literal:
    """Return labels as a tuple of texts, or as entries where SQL gives a label's meaning.

    Raises:
        AICallError: a label is not a text, is empty, or occurs twice; the error names the label and its place.
    """
    entries = [(label.strip(), meaning) for label, meaning in _read(value, name)]
    labels = tuple(label for label, _ in entries)
    _check_distinct(labels, name)
    return Entries(tuple(entries)) if any(meaning for _, meaning in entries) else labels


def read_names(value: Literal, name: str) -> tuple[str, ...]:
    """Return a list of distinct texts.

    Raises:
        AICallError: the value is not such a list.
    """
    texts = value if isinstance(value, tuple) else ()
    names = tuple(text.strip() for text in texts if isinstance(text, str))
    if not names or len(names) < len(texts):
        raise AICallError(f"{name} must be a list of texts such as ['a', 'b']")
    _check_distinct(names, name)
    return names


def read_meanings(value: Literal, name: str) -> Entries:
    """Return the meanings of values; `value` holds them as entries, as a list of pairs, or as JSON text of either.

    Raises:
        AICallError: the value has another form, or a meaning is not a text.
    """
    if isinstance(value, str):
        value = read_json(value)
    pairs = value.items if isinstance(value, Entries) else value if isinstance(value, tuple) else ()
    found = tuple((str(pair[0]), pair[1]) for pair in pairs if isinstance(pair, tuple) and len(pair) == 2)
    are_texts = all(isinstance(meaning, str) and meaning.strip() for _, meaning in found)
    if not found or len(found) < len(pairs) or not are_texts:
        raise AICallError(f"{name} must give each value a meaning as text, such as {{0: 'useless', 10: 'perfect'}}")
    _check_distinct([key for key, _ in found], name)
    return Entries(found)


def described(meanings: Mapping[str, str]) -> str:
    """Return a line for each value with its meaning.

    Raises:
        AICallError: `meanings` is not a mapping.
    """
    if not isinstance(meanings, Mapping):
        raise AICallError(f"described needs a mapping such as {{'urgent': 'needs an answer today'}}, not {meanings!r}")
    return "\n".join(f"- {value}: {meaning}" for value, meaning in meanings.items())


def read_json(text: str) -> Literal:
    """Return the JSON value of a text as an SQL constant; None for a text that is not JSON."""
    try:
        return _literal(well_formed_value(json.loads(text)))
    except (ValueError, RecursionError):
        return None


def as_json(value: Literal) -> Any:
    """Return a constant as a JSON value."""
    if isinstance(value, Entries):
        return {key: as_json(one) for key, one in value.items}
    return [as_json(one) for one in value] if isinstance(value, tuple) else value


def _literal(value: Any) -> Literal:
    if isinstance(value, Mapping):
        return Entries(tuple((str(key), _literal(one)) for key, one in value.items()))
    return tuple(map(_literal, value)) if isinstance(value, list) else value


def _read(value: Literal, name: str) -> Sequence[tuple[str, str | None]]:
    if isinstance(value, str):
        value = read_json(value)
    if isinstance(value, Entries) and value.items:
        return [_described(label, meaning, name, place) for place, (label, meaning) in enumerate(value.items, 1)]
    if not isinstance(value, tuple) or not value:
        raise _unreadable(name)
    return [_label(item, name, place) for place, item in enumerate(value, 1)]


def _described(label: str, meaning: Literal, name: str, place: int) -> tuple[str, str | None]:
    """Return a label with its meaning; `meaning` is a text, or entries that contain a description."""
    if isinstance(meaning, Entries):
        return _label(Entries((("label", label), *meaning.items)), name, place)
    return label, _meaning(meaning, label, name, place)


def _label(item: Literal, name: str, place: int) -> tuple[str, str | None]:
    """Return one label of a list with its meaning."""
    if isinstance(item, str | int | float) and not isinstance(item, bool):
        return str(item), None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return item[0], _meaning(item[1], item[0], name, place)
    given = dict(item.items) if isinstance(item, Entries) else {}
    label = given.get("label")
    if not isinstance(label, str):
        raise _unreadable(name, f"; label {place} is {_shown(item)}")
    where = f"label {place}, {label!r}"
    if unknown := [key for key in given if key not in _OF_LABEL]:
        raise AICallError(f"{name}: {where}, has the unknown key {unknown[0]!r}; valid keys: {', '.join(_OF_LABEL)}")
    meaning, texts = _meaning(given.get("description"), label, name, place), given.get("examples")
    if texts is None:
        return label, meaning
    shown = "; ".join(read_names(texts, f"{name}: the examples of {where},"))
    return label, f"{meaning or ''} (for example: {shown})".strip()


def _meaning(value: Literal, label: str, name: str, place: int) -> str | None:
    if value is not None and not isinstance(value, str):
        raise AICallError(f"{name}: the meaning of label {place}, {label!r}, must be text, not {_shown(value)}")
    return (value or "").strip() or None


def _check_distinct(values: Sequence[str], name: str) -> None:
    """Check that no value is empty and no two values are equal. Numbers in the error count from 1."""
    first: dict[str, int] = {}
    for place, value in enumerate(values, 1):
        if not value:
            raise AICallError(f"{name} must not be empty: number {place} is ''")
        if value in first:
            raise AICallError(f"{name} must be distinct: numbers {first[value]} and {place} are both {value!r}")
        first[value] = place


def _shown(value: Literal) -> str:
    return excerpt(json.dumps(as_json(value), ensure_ascii=False), 60)


def _unreadable(name: str, found: str = "") -> AICallError:
    return AICallError(
        f"{name} must be a list of texts such as ['a', 'b'], or give the meaning of each label: {{'a': '…', 'b': '…'}}"
        f"{found}"
    )
