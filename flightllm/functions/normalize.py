"""Texts as `normalize => '…'` compares them: rows whose values agree then share one call."""

import re
import unicodedata
from collections.abc import Set as AbstractSet

from flightllm.errors import AICallError

NORMALIZATIONS = ("case", "space", "punctuation")
"""Words that `normalize` takes."""
_PUNCTUATION = re.compile(r"(?:[^\w\s]|_)(?!\d)")
"""What may be punctuation. Directly before a digit it stays, since 3.5 is not 35, nor -1 the same as 1."""


def normalised(value: str, how: AbstractSet[str]) -> str:
    """Return `value` without what `how` says not to count.

    `case`: case-folded as Unicode has it. `punctuation`: without characters of Unicode's categories P, other than
    directly before a digit. `space`: any white space as one blank, none at the ends.
    """
    if "case" in how:
        value = value.casefold()
    if "punctuation" in how:
        value = _PUNCTUATION.sub(_kept, value)
    return " ".join(value.split()) if "space" in how else value


def normalised_tuple(values: tuple[str | None, ...], how: AbstractSet[str]) -> tuple[str | None, ...]:
    """Return `values` each `normalised`, and NULL as it is."""
    return tuple(None if value is None else normalised(value, how) for value in values) if how else values


def read_normalize(text: str) -> frozenset[str]:
    """Read the words of `normalize => 'case,space'`.

    Raises:
        AICallError: there is none, or an unknown one.
    """
    words = frozenset(word.strip().lower() for word in text.split(","))
    if not words <= set(NORMALIZATIONS):
        raise AICallError(
            f"normalize must be one or more of {', '.join(map(repr, NORMALIZATIONS))}, with commas between them in one"
            f" text such as '{','.join(NORMALIZATIONS)}', not {text!r}"
        )
    return words


def _kept(match: re.Match[str]) -> str:
    """Return nothing for punctuation, and any other symbol as it is."""
    return "" if unicodedata.category(match[0]).startswith("P") else match[0]
