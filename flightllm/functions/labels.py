"""Labels, and what each of them means, in the forms in which SQL can give them.

All of these are read: `['a', 'b']`, `{'a': 'its meaning'}`, `[('a', 'its meaning')]`, which BigQuery takes,
`[{'label': 'a', 'description': 'its meaning', 'examples': ['a text']}]`, which Snowflake takes, and a text with any of
these as JSON, which Databricks takes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flightllm.errors import AICallError
from flightllm.functions.base import Entries, Literal

_OF_LABEL = ("label", "description", "examples")


def read_labels(value: Literal, name: str) -> Literal:
    """Return labels as a tuple of texts, or as entries where SQL says what some label means.

    Raises:
        AICallError: they are no labels, or not distinct and not empty.
    """
    entries = [(label.strip(), meaning) for label, meaning in _read(value, name)]
    labels = tuple(label for label, _ in entries)
    _check_distinct(labels, name)
    return Entries(tuple(entries)) if any(meaning for _, meaning in entries) else labels


def read_names(value: Literal, name: str) -> tuple[str, ...]:
    """Return a list of distinct texts.

    Raises:
        AICallError: it is none.
    """
    texts = value if isinstance(value, tuple) else ()
    names = tuple(text.strip() for text in texts if isinstance(text, str))
    if not names or len(names) < len(texts):
        raise AICallError(f"{name} must be a list of texts such as ['a', 'b']")
    _check_distinct(names, name)
    return names


def read_meanings(value: Literal, name: str) -> Entries:
    """Return what each of some values means, given as entries or as a list of pairs.

    Raises:
        AICallError: it is neither, or a meaning is no text.
    """
    pairs = value.items if isinstance(value, Entries) else value if isinstance(value, tuple) else ()
    found = tuple((str(pair[0]), pair[1]) for pair in pairs if isinstance(pair, tuple) and len(pair) == 2)
    if not found or len(found) < len(pairs) or not all(isinstance(meaning, str) for _, meaning in found):
        raise AICallError(f"{name} must say in texts what values mean, such as {{0: 'useless', 10: 'perfect'}}")
    _check_distinct([key for key, _ in found], name)
    return Entries(found)


def described(meanings: Mapping[str, str]) -> str:
    """Return a line for each value, with what it means."""
    return "\n".join(f"- {value}: {meaning}" for value, meaning in meanings.items())


def literal_of(value: Any) -> Literal:
    """Return a JSON value as SQL has it."""
    if isinstance(value, Mapping):
        return Entries(tuple((str(key), literal_of(one)) for key, one in value.items()))
    return tuple(map(literal_of, value)) if isinstance(value, list) else value


def _read(value: Literal, name: str) -> Sequence[tuple[str, str | None]]:
    if isinstance(value, str):
        try:
            value = literal_of(json.loads(value))
        except (ValueError, RecursionError) as error:
            raise _unreadable(name) from error
    if isinstance(value, Entries) and value.items:
        return [(label, _meaning(meaning, label, name)) for label, meaning in value.items]
    if not isinstance(value, tuple) or not value:
        raise _unreadable(name)
    return [_label(item, name) for item in value]


def _label(item: Literal, name: str) -> tuple[str, str | None]:
    """Return one label of a list, and what it means."""
    if isinstance(item, str):
        return item, None
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return item[0], _meaning(item[1], item[0], name)
    given = dict(item.items) if isinstance(item, Entries) else {}
    label = given.get("label")
    if not isinstance(label, str):
        raise _unreadable(name)
    if unknown := [key for key in given if key not in _OF_LABEL]:
        raise AICallError(f"{name}: the label {label!r} has {unknown[0]!r}; {', '.join(_OF_LABEL)} are known")
    meaning, texts = _meaning(given.get("description"), label, name), given.get("examples")
    if texts is None:
        return label, meaning
    shown = "; ".join(read_names(texts, f"{name}: the examples of {label!r}"))
    return label, f"{meaning or ''} (for example: {shown})".strip()


def _meaning(value: Literal, label: str, name: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise AICallError(f"{name}: what the label {label!r} means must be text")
    return (value or "").strip() or None


def _check_distinct(labels: Sequence[str], name: str) -> None:
    if not all(labels) or len(set(labels)) < len(labels):
        raise AICallError(f"{name} must be distinct and not empty: {', '.join(map(repr, labels))}")


def _unreadable(name: str) -> AICallError:
    return AICallError(
        f"{name} must be a list of texts such as ['a', 'b'], or say what each label means: {{'a': '…', 'b': '…'}}"
    )
