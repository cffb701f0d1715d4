"""The parts of texts as lists: all matches of a pattern, and the texts between separators."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import SqlError

ALL_MATCHES, SPLIT, SPLIT_BY_PATTERN = "__all_matches", "__split", "__split_by_pattern"
"""The names of the functions in SQL."""
TEXTS: Final = pa.list_(pa.string())
_BEGIN, _END = "\ue000", "\ue001"
"""Signs for private use, which mark matches. A text that has one itself is not searched."""


def all_matches(texts: pa.Array, patterns: pa.Array, groups: pa.Array) -> pa.Array:
    """Return all matches of a pattern in each text, or all texts of one of its groups; 0 is the whole match.

    RE2 finds the matches, as in DuckDB, in a time that grows with the length of the text.

    Raises:
        SqlError: RE2 cannot read a pattern, the pattern matches an empty text or has no such group, or a text has a
            sign for private use.
    """

    def found(some: pa.Array, pattern: str, group: int) -> list[list[str]]:
        marked = rf"{_BEGIN}\1{_BEGIN}\{group + 1}{_END}"
        if pc.any(pc.or_(pc.match_substring(some, _BEGIN), pc.match_substring(some, _END))).as_py():
            raise SqlError(
                "regexp_extract_all cannot search a text with the signs U+E000 or U+E001: replace them first"
            )
        replaced = pc.replace_substring_regex(some, f"({pattern})", marked).to_pylist()
        pairs = [text.split(_BEGIN)[1:] for text in replaced]
        if any("" in pair[::2] for pair in pairs):  # RE2 replaces no empty match after another match
            raise SqlError("the pattern of regexp_extract_all matches empty texts: write + in place of *")
        return [[part.partition(_END)[0] for part in pair[1::2]] for pair in pairs]

    rows = zip(texts.to_pylist(), patterns.to_pylist(), groups.to_pylist(), strict=True)
    return _each(list(rows), found)


def split(texts: pa.Array, separators: pa.Array) -> pa.Array:
    """Return the texts between separators: the letters for an empty separator, and the whole text for NULL."""
    rows = zip(texts.to_pylist(), separators.to_pylist(), strict=True)
    return pa.array([None if text is None else _split(text, separator) for text, separator in rows], TEXTS)


def split_by_pattern(texts: pa.Array, patterns: pa.Array) -> pa.Array:
    """Return the texts between the matches of a pattern.

    Raises:
        SqlError: RE2 cannot read a pattern.
    """

    def found(some: pa.Array, pattern: str, _: int) -> list[list[str]]:
        if not pattern:
            return [list(text) for text in some.to_pylist()]
        return list(pc.split_pattern_regex(some, pattern).to_pylist())

    rows = zip(texts.to_pylist(), patterns.to_pylist(), [0] * len(texts), strict=True)
    return _each(list(rows), found)


def _split(text: str, separator: str | None) -> list[str]:
    if separator is None:
        return [text]
    return text.split(separator) if separator else list(text)


def _each(
    rows: list[tuple[str | None, str | None, int | None]], found: Callable[[pa.Array, str, int], list[list[str]]]
) -> pa.Array:
    """Return the lists of all rows; rows with the same pattern are computed together, and NULL gives NULL."""
    made: list[list[str] | None] = [None] * len(rows)
    places: dict[tuple[str, int], list[int]] = {}
    for place, (text, pattern, group) in enumerate(rows):
        if text is not None and pattern is not None and group is not None:
            places.setdefault((pattern, group), []).append(place)
    for (pattern, group), some in places.items():
        if not 0 <= group <= 8:
            raise SqlError(f"a pattern has the groups 0 to 8 here, and not {group}")
        try:
            lists = found(pa.array([rows[place][0] for place in some], pa.string()), pattern, group)
        except pa.ArrowInvalid as error:
            raise SqlError(f"the pattern {pattern[:100]!r} cannot be used: {str(error)[:200]}") from error
        for place, one in zip(some, lists, strict=True):
            made[place] = one
    return pa.array(made, TEXTS)
