"""The parts of texts as lists: all matches of a pattern, and the texts between separators."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction
from flightllm.functions.rows import TEXTS, each_row

ALL_MATCHES, NTH_REPLACED = "__all_matches", "__nth_replaced"
SPLIT, SPLIT_BY_PATTERN = "__split", "__split_by_pattern"
"""The names of the functions in SQL."""
MATCH_ROWS: Final = "__match_rows"
"""The name in SQL of the function that returns a list for each match of a pattern."""
LISTS: Final = pa.list_(pa.list_(pa.string()))
_HIDDEN: Final = re.compile(r"\\.|\[\^?\]?[^\]]*\]", re.DOTALL)
"""The parts of a pattern that hide a sign: a sign after a backslash, and a set of signs."""
_OPENED: Final = re.compile(r"\((?!\?)")
_BEGIN, _END, _BETWEEN = "\ue000", "\ue001", "\ue002"
"""Signs for private use, which mark matches. A text that has one itself is not searched."""


def all_matches(texts: pa.Array, patterns: pa.Array, groups: pa.Array) -> pa.Array:
    """Return all matches of a pattern in each text, or all texts of one of its groups; 0 is the whole match.

    RE2 finds the matches, as in DuckDB, in a time that grows with the length of the text.

    Raises:
        SqlError: RE2 cannot read a pattern, the pattern matches an empty text or has no such group, or a text has a
            sign for private use.
    """

    def found(some: pa.Array, pattern: str, group: int) -> list[list[str]]:
        if not 0 <= group <= 8:
            raise SqlError(f"a pattern has the groups 0 to 8 here, and not {group}")
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

    return by_pattern(found, texts, patterns, groups)


def match_rows(texts: pa.Array, patterns: pa.Array, all_of_them: pa.Array) -> pa.Array:
    """Return a list for each match of a pattern: the texts of its groups, or the whole match without groups.

    Raises:
        SqlError: see `all_matches`; or a group can have no match, and PostgreSQL has NULL in its place.
    """
    given = patterns.to_pylist()
    known = {one: _groups(one) for one in given if one is not None}
    most = max(known.values(), default=0)
    by_group = [
        all_matches(
            texts, patterns, pa.array([place if place <= known.get(one, 0) else 0 for one in given])
        ).to_pylist()
        for place in range(most + 1)
    ]
    found: list[list[list[str]] | None] = []
    for row, (pattern, every) in enumerate(zip(given, all_of_them.to_pylist(), strict=True)):
        whole = by_group[0][row]
        if whole is None:
            found.append(None)
            continue
        places = range(1, known[pattern] + 1) if known[pattern] else [0]
        lists = [[by_group[place][row][at] for place in places] for at in range(len(whole))]
        found.append(lists if every else lists[:1])
    return pa.array(found, LISTS)


def _groups(pattern: str) -> int:
    """Return the number of groups in a pattern."""
    if can_miss(pattern):
        raise SqlError(
            "a group of the pattern of regexp_matches can have no match, and its text would be NULL: write (a|b) in"
            " place of (a)|(b), and (a?) in place of (a)?"
        )
    return sum(1 for _ in _OPENED.finditer(_HIDDEN.sub("x", pattern)))


def can_miss(pattern: str) -> bool:
    """Return whether a match of a pattern can have an empty place for a group, as in `(a)?` and `(a)|(b)`."""
    signs = _HIDDEN.sub("x", pattern)
    opened: list[tuple[bool, bool, bool]] = [(False, False, False)]  # captures, has groups inside, has alternatives
    for place, sign in enumerate(signs):
        captures, groups, others = opened[-1]
        if sign == "(":
            opened.append((signs[place + 1 : place + 2] != "?", False, False))
        elif sign == "|":
            opened[-1] = captures, groups, True
        elif sign == ")" and len(opened) > 1:
            opened.pop()
            optional = signs[place + 1 : place + 2] in {"?", "*"} or signs[place + 1 : place + 3] == "{0"
            if (groups and others) or (optional and (captures or groups)):
                return True
            opened[-1] = opened[-1][0], opened[-1][1] or captures or groups, opened[-1][2]
    return opened[0][1] and opened[0][2]


def nth_replaced(
    texts: pa.Array, patterns: pa.Array, templates: pa.Array, starts: pa.Array, occurrences: pa.Array
) -> pa.Array:
    r"""Return texts in which one match of a pattern is replaced; occurrence 0 replaces all matches from a start.

    A template has `\1` for the first group. Starts and occurrences count from 1.

    Raises:
        SqlError: RE2 cannot read a pattern or a template, or a text has a sign for private use.
    """
    rests = each_row(lambda text, start: text[start - 1 :], texts, starts)
    marked = by_pattern(_marks, rests, patterns, templates, kind=pa.string())
    return each_row(_nth_replaced, texts, starts, marked, occurrences)


def _marks(texts: pa.Array, pattern: str, template: str) -> list[str]:
    """Return texts with marks around each match and what is to replace it."""
    signs = f"[{_BEGIN}{_END}{_BETWEEN}]"
    if re.search(signs, template) or pc.any(pc.match_substring_regex(texts, signs)).as_py():
        raise SqlError("regexp_replace cannot read the signs U+E000 to U+E002 here: replace them first")
    made: list[str] = pc.replace_substring_regex(texts, pattern, rf"{_BEGIN}\0{_BETWEEN}{template}{_END}").to_pylist()
    return made


def _nth_replaced(text: str, start: int, marked: str, occurrence: int) -> str:
    first, *parts = marked.split(_BEGIN)
    made = text[: start - 1] + first
    for place, part in enumerate(parts, 1):
        found, _, after = part.partition(_BETWEEN)
        new, _, tail = after.partition(_END)
        made += (new if occurrence in {0, place} else found) + tail
    return made


def split(texts: pa.Array, separators: pa.Array) -> pa.Array:
    """Return the texts between separators: the letters for an empty separator, and the whole text for NULL."""
    rows = zip(texts.to_pylist(), separators.to_pylist(), strict=True)
    return pa.array([None if text is None else _split(text, separator) for text, separator in rows], TEXTS)


def split_by_pattern(texts: pa.Array, patterns: pa.Array) -> pa.Array:
    """Return the texts between the matches of a pattern.

    Raises:
        SqlError: RE2 cannot read a pattern; or see `separated`.
    """

    def found(some: pa.Array, pattern: str) -> list[list[str]]:
        if not pattern:
            return [list(text) for text in some.to_pylist()]
        return separated(some, pattern)

    return by_pattern(found, texts, patterns)


def separated(texts: pa.Array, pattern: str, most: int = 0) -> list[list[str]]:
    """Return the texts between the matches of a pattern, at most so many of each text if `most` is above 0.

    Arrow's own function never ends for a pattern that matches an empty text.

    Raises:
        SqlError: the pattern matches an empty text, or a text has a sign for private use.
    """
    if pc.any(pc.or_(pc.match_substring(texts, _BEGIN), pc.match_substring(texts, _END))).as_py():
        raise SqlError("a text with the signs U+E000 or U+E001 cannot be split by a pattern: replace them first")
    return [_separated(text, most) for text in _marked(texts, pattern)]


def _marked(texts: pa.Array, pattern: str) -> list[str]:
    marked: list[str] = pc.replace_substring_regex(texts, f"({pattern})", rf"{_BEGIN}\1{_END}").to_pylist()
    if any(_BEGIN + _END in one for one in marked):
        raise SqlError(
            "the separator matches empty texts: write + in place of *, and a backslash before a sign such as |"
        )
    return marked


def _separated(marked: str, most: int) -> list[str]:
    first, *others = marked.split(_BEGIN, most - 1) if most > 0 else marked.split(_BEGIN)
    parts = [first, *(one.partition(_END)[2] for one in others)]
    return [one.replace(_BEGIN, "").replace(_END, "") for one in parts]


def _split(text: str, separator: str | None) -> list[str]:
    if separator is None:
        return [text]
    return text.split(separator) if separator else list(text)


def by_pattern(
    found: Callable[..., Sequence[Any]], texts: pa.Array, *columns: pa.Array, kind: pa.DataType = TEXTS
) -> pa.Array:
    """Return the values of all rows, which are lists of texts if `kind` is not given; NULL gives NULL.

    The first of the columns has the patterns. Rows that differ in their texts only are computed together: `found`
    takes these texts and the other values of the rows.

    Raises:
        SqlError: RE2 cannot read a pattern.
    """
    given = texts.to_pylist()
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(zip(*(column.to_pylist() for column in columns), strict=True)):
        if given[place] is not None and None not in key:
            places.setdefault(key, []).append(place)
    made: list[Any] = [None] * len(given)
    for key, some in places.items():
        try:
            values = found(pa.array([given[place] for place in some], pa.string()), *key)
        except pa.ArrowInvalid as error:
            raise SqlError(f"the pattern {key[0][:100]!r} cannot be used: {str(error)[:200]}") from error
        for place, one in zip(some, values, strict=True):
            made[place] = one
    return pa.array(made, kind)


FUNCTIONS: Final = (
    OwnFunction(all_matches, (pa.string(), pa.string(), pa.int64()), pa.list_(pa.string()), ALL_MATCHES),
    OwnFunction(match_rows, (pa.string(), pa.string(), pa.bool_()), LISTS, MATCH_ROWS),
    OwnFunction(split, (pa.string(), pa.string()), pa.list_(pa.string()), SPLIT),
    OwnFunction(split_by_pattern, (pa.string(), pa.string()), pa.list_(pa.string()), SPLIT_BY_PATTERN),
    OwnFunction(
        nth_replaced, (pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64()), pa.string(), NTH_REPLACED
    ),
)
