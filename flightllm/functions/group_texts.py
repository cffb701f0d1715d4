"""The texts of a group as one text: an aggregate over a model gets all rows of a group as one value.

Example: the rows `b`, NULL, `a` and `b` become the texts `a`, `b` and `b`, with `ELEMENT_END` between them.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.call import ELEMENT_END
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS

GROUP_TEXTS, GROUP_KEYED, KEYED_TEXT = "__group_texts", "__group_keyed_texts", "__keyed_text"
"""The names of the functions in SQL."""
_MARK: Final = "\x1d"
"""The first character of a group, so that no other text is read as one (ASCII's group separator)."""
_KEYED_MARK: Final = "\x1c"
"""The same where each text has a key before it (ASCII's file separator)."""
_KEY_END: Final = "\x1f"
"""Ends the key before a text (ASCII's unit separator)."""
_MOST_BYTES: Final = 2**31 - 1
"""The most bytes of an Arrow text."""


def group_texts(lists: pa.Array) -> pa.Array:
    """Return the texts of each list as one text, sorted; NULLs and blank texts are left out.

    A list without a text has NULL.

    Raises:
        SqlError: the texts of a list have more bytes than an Arrow text can have.
    """
    return pa.array([None if texts is None else _joined(texts, _MARK) for texts in _lists(lists)], pa.string())


def group_keyed_texts(lists: pa.Array) -> pa.Array:
    """Return what `group_texts` does, for texts from `keyed_texts`.

    Raises:
        SqlError: the texts of a list have more bytes than an Arrow text can have.
    """
    return pa.array([None if texts is None else _joined(texts, _KEYED_MARK) for texts in _lists(lists)], pa.string())


def _lists(lists: pa.Array) -> Iterator[list[str | None] | None]:
    """Yield one list at a time, because all lists as Python's objects take several times their bytes."""
    for one in lists:
        found: Any = one.as_py()
        yield found


def _joined(texts: list[str | None], mark: str) -> str | None:
    there = (text for text in texts if text is not None)
    kept = sorted(text.replace(ELEMENT_END, " ") for text in there if not _is_blank(text, mark))
    if not kept:
        return None
    size = len(kept) + sum(len(text) if text.isascii() else len(text.encode(errors="replace")) for text in kept)
    if size > _MOST_BYTES:
        raise SqlError(
            f"the texts of a group have {size:,} bytes, and at most {_MOST_BYTES:,} are possible: add a key to GROUP"
            " BY, then summarise the summaries"
        )
    return mark + ELEMENT_END.join(kept)


def keyed_texts(texts: pa.Array, keys: pa.Array) -> pa.Array:
    """Return each text with the key of its row before it; NULL for a row without a text."""
    pairs = zip(texts.to_pylist(), keys.to_pylist(), strict=True)
    return pa.array([None if text is None else f"{_one_line(key)}{_KEY_END}{text}" for text, key in pairs], pa.string())


def _one_line(key: str | None) -> str:
    return "" if key is None else key.replace(_KEY_END, " ")


def _is_blank(element: str, mark: str) -> bool:
    text = element.partition(_KEY_END)[2] if mark == _KEYED_MARK else element
    return not text.strip()


def is_group(text: str) -> bool:
    """Return whether a text was made by the functions of this module."""
    return text.startswith((_MARK, _KEYED_MARK))


def read_group(group: str) -> list[tuple[str, list[str]]]:
    """Return the distinct texts of a group in their order, each with the sorted keys of its rows.

    Without keys, the text itself stands for the key of each of its rows.

    Raises:
        ValueError: the text is not a group.
    """
    if not is_group(group):
        raise ValueError("not a group of texts")
    found = dict[str, list[str]]()
    if group.startswith(_MARK):
        for text in group.removeprefix(_MARK).split(ELEMENT_END):
            found.setdefault(text, []).append(text)
        return list(found.items())
    for element in group.removeprefix(_KEYED_MARK).split(ELEMENT_END):
        key, _, text = element.partition(_KEY_END)
        found.setdefault(text, []).append(key)
    return sorted(found.items())


FUNCTIONS: Final = (
    OwnFunction(group_texts, (TEXTS,), pa.string(), GROUP_TEXTS),
    OwnFunction(group_keyed_texts, (TEXTS,), pa.string(), GROUP_KEYED),
    OwnFunction(keyed_texts, (pa.string(), pa.string()), pa.string(), KEYED_TEXT),
)
