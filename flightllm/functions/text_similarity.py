"""How similar two texts are: the measures of DuckDB that DataFusion lacks. They compare characters."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from flightllm.errors import SqlError
from flightllm.functions.own import OwnFunction

JARO, JARO_WINKLER, DAMERAU, HAMMING = "__jaro", "__jaro_winkler", "__damerau_levenshtein", "__hamming"
"""The names of the functions in SQL."""
_BOOST_FROM: Final = 0.7
_PREFIX: Final = 4
_WEIGHT: Final = 0.1
"""Winkler's constants: from which similarity on a common prefix counts, how long it can be, and its weight."""
_LONGEST: Final = 10_000
"""The most characters of a text: the time grows with the product of two lengths."""


def jaro(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the similarity of Jaro from 0 to 1; 0 if one text is empty."""
    return _of_pairs(left, right, _jaro, pa.float64())


def jaro_winkler(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the similarity of Jaro and Winkler from 0 to 1: a common prefix counts more."""
    return _of_pairs(left, right, _jaro_winkler, pa.float64())


def damerau_levenshtein(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the least number of characters to insert, delete, replace, or exchange with their neighbor."""
    return _of_pairs(left, right, _damerau, pa.int64())


def hamming(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return the number of places with different characters.

    Raises:
        SqlError: two texts have different lengths, or one is empty.
    """
    return _of_pairs(left, right, _hamming, pa.int64())


def _of_pairs(left: pa.Array, right: pa.Array, measure: Callable[[str, str], float], kind: pa.DataType) -> pa.Array:
    rows = zip(left.to_pylist(), right.to_pylist(), strict=True)
    return pa.array([None if None in row else measure(*_checked(*row)) for row in rows], kind)


def _checked(left: str, right: str) -> tuple[str, str]:
    if max(len(left), len(right)) > _LONGEST:
        raise SqlError(f"a text is longer than {_LONGEST} characters: compare a part of it, as in left(text, 1000)")
    return left, right


def _jaro(left: str, right: str) -> float:
    reach = max(len(left), len(right)) // 2 - 1
    if not left or not right:
        return 0.0
    used = [False] * len(right)
    matched: list[str] = []
    for at, sign in enumerate(left):
        for other in range(max(0, at - reach), min(len(right), at + max(reach, 0) + 1)):
            if not used[other] and right[other] == sign:
                used[other] = True
                matched.append(sign)
                break
    if not matched:
        return 0.0
    others = [sign for sign, one in zip(right, used, strict=True) if one]
    moved = sum(a != b for a, b in zip(matched, others, strict=True)) // 2
    count = len(matched)
    return (count / len(left) + count / len(right) + (count - moved) / count) / 3


def _jaro_winkler(left: str, right: str) -> float:
    similarity = _jaro(left, right)
    if similarity <= _BOOST_FROM:
        return similarity
    same = 0
    for a, b in zip(left[:_PREFIX], right[:_PREFIX], strict=False):
        if a != b:
            break
        same += 1
    return similarity + same * _WEIGHT * (1 - similarity)


def _damerau(left: str, right: str) -> int:
    """Return the distance by its table; `last` has the row in which each character came last."""
    most = len(left) + len(right)
    table: list[list[int]] = [[most] * (len(right) + 2), [most, *range(len(right) + 1)]]
    last: dict[str, int] = {}
    for row, sign in enumerate(left, 1):
        table.append([most, row, *[0] * len(right)])
        column_of_match = 0
        for column, other in enumerate(right, 1):
            before, place = last.get(other, 0), column_of_match
            if sign == other:
                column_of_match = column
            exchanged = table[before][place] + (row - before - 1) + 1 + (column - place - 1)
            table[row + 1][column + 1] = min(
                table[row][column] + (sign != other), table[row + 1][column] + 1, table[row][column + 1] + 1, exchanged
            )
        last[sign] = row
    return table[-1][-1]


def _hamming(left: str, right: str) -> int:
    if len(left) != len(right):
        raise SqlError("hamming compares texts of the same length: write levenshtein(a, b) for others")
    return sum(a != b for a, b in zip(left, right, strict=True))


FUNCTIONS: Final = (
    OwnFunction(jaro, (pa.string(), pa.string()), pa.float64(), JARO),
    OwnFunction(jaro_winkler, (pa.string(), pa.string()), pa.float64(), JARO_WINKLER),
    OwnFunction(damerau_levenshtein, (pa.string(), pa.string()), pa.int64(), DAMERAU),
    OwnFunction(hamming, (pa.string(), pa.string()), pa.int64(), HAMMING),
)
