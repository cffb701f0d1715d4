"""Texts of arrays in PostgreSQL's style, such as `{a,"b c",NULL}`."""

import re
from typing import Any, Final

MOST_DIMENSIONS: Final = 6
"""The most arrays inside each other."""
_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^{}",\\\s]|\\.|(?<=[^,{\s])\s+(?=[^\s,}]))+))\s*', re.DOTALL)


def array_items(text: str) -> list[Any]:
    """Return the items of an array: texts, None for NULL, and lists of them for arrays of arrays.

    Raises:
        ValueError: the text is not an array.
    """
    bare = text.strip()
    items, at = _items(bare, 0, 1)
    if at != len(bare):
        raise ValueError(text)
    return items


def _items(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    """Return the items of the array that begins at `at`, and where it ends."""
    if depth > MOST_DIMENSIONS or at >= len(text) or text[at] != "{":
        raise ValueError(text)
    at += 1
    items: list[Any] = []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at < len(text) and text[at] == "}" and not items:
            return items, at + 1
        if at < len(text) and text[at] == "{":
            part, at = _items(text, at, depth + 1)
            items.append(part)
        else:
            found = _ITEM.match(text, at)
            if found is None:
                raise ValueError(text)
            at = found.end()
            quoted = found[1] is not None
            item = re.sub(r"\\(.)", r"\1", found[1] if quoted else found[2], flags=re.DOTALL)
            items.append(None if not quoted and item.lower() == "null" else item)
        if at >= len(text) or text[at] not in ",}":
            raise ValueError(text)
        at += 1
        if text[at - 1] == "}":
            return items, at
