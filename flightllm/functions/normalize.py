"""Normalised texts for `normalize => '…'`: rows share one call if their normalised values are equal."""

import re
import unicodedata
from collections.abc import Set as AbstractSet

from flightllm.errors import AICallError

NORMALIZATIONS = ("case", "space", "punctuation")
"""The words that `normalize` accepts."""
_PUNCTUATION = re.compile(r"(?:[^\w\s]|_)(?!\d)")
"""Candidates for punctuation. A mark directly before a digit stays, because 3.5 is not 35, and -1 is not 1."""


def normalised(value: str, how: AbstractSet[str]) -> str:
    """Return `value` without the differences that `how` ignores.

    `case` applies Unicode's case folding. `punctuation` removes characters of the Unicode categories that begin with P,
    except directly before a digit. `space` turns white space into single blanks and removes it at both ends.
    """
    if "case" in how:
        value = value.casefold()
    if "punctuation" in how:
        value = _PUNCTUATION.sub(_kept, value)
    return " ".join(value.split()) if "space" in how else value


def normalised_tuple(values: tuple[str | None, ...], how: AbstractSet[str]) -> tuple[str | None, ...]:
    """Return `values` with each value `normalised`; NULL stays NULL."""
    return tuple(None if value is None else normalised(value, how) for value in values) if how else values


def read_normalize(text: str) -> frozenset[str]:
    """Read the words of `normalize => 'case,space'`.

    Raises:
        AICallError: the text has no word, or an unknown word.
    """
    words = frozenset(word.strip().lower() for word in text.split(","))
    if not words <= set(NORMALIZATIONS):
        raise AICallError(
            f"normalize must be one or more of {', '.join(map(repr, NORMALIZATIONS))}, not {text!r}: write the words"
            f" with commas between them, such as '{','.join(NORMALIZATIONS)}'"
        )
    return words


def _kept(match: re.Match[str]) -> str:
    """Return an empty text for punctuation, and other symbols unchanged."""
    return "" if unicodedata.category(match[0]).startswith("P") else match[0]
