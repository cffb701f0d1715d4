"""Texts with two operators in a row, of which PostgreSQL's precedence takes one first."""

from collections.abc import Iterator
from itertools import product
from typing import Final

_NUMBERS: Final = ("=", "<>", "<", ">=", "+", "-", "*", "/", "%", "^", "#", "&", "|", "<<", ">>", "IS DISTINCT FROM")
_TEXTS: Final = ("=", "<", "||", "LIKE", "NOT LIKE", "ILIKE", "~", "!~", "~~", "IS DISTINCT FROM")
_BOOLEANS: Final = ("=", "<>", "AND", "OR", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_AFTER: Final = (
    "IS NULL",
    "IS NOT TRUE",
    "IN (2, 3)",
    "NOT IN (2, NULL)",
    "BETWEEN 2 AND 3",
    "::bigint",
    "= ANY (ARRAY[2])",
)
_BEFORE: Final = ("-", "NOT", "~")


def operators() -> Iterator[str]:
    """Yield expressions of two or three operators over values of one type, or of a type and conditions on it."""
    for first, second in product(_NUMBERS, repeat=2):
        yield f"SELECT 7 {first} 2 {second} 3 AS r"
    for first, second in product(_TEXTS, repeat=2):
        yield f"SELECT 'ab' {first} 'b' {second} 'c' AS r"
    for first, second in product(_BOOLEANS, repeat=2):
        yield f"SELECT false {first} true {second} false AS r"
        yield f"SELECT x, false {first} x > 2 {second} x IS NULL AS r FROM a"
    for one, joined in product(_TEXTS, _BOOLEANS):
        yield f"SELECT 'ab' {one} 'b' {joined} false AS r"
        yield f"SELECT false {joined} 'ab' {one} 'b' AS r"
        yield f"SELECT NOT 'ab' {one} 'b' {joined} true AS r"
    for one, joined in product(_NUMBERS, _BOOLEANS):
        yield f"SELECT 7 {one} 2 {joined} true AS r"
        yield f"SELECT true {joined} 7 {one} 2 AS r"
    for one, after in product(_NUMBERS, _AFTER):
        yield f"SELECT 7 {one} 2 {after} AS r"
        yield f"SELECT x, 4 {one} x {after} AS r FROM a"
    for after, joined in product(_AFTER, (*_BOOLEANS, *_NUMBERS[4:9])):
        yield f"SELECT x, x {after} {joined} true AS r FROM a"
        yield f"SELECT x, x {after} {joined} 2 AS r FROM a"
        yield f"SELECT x, true {joined} x {after} AS r FROM a"
        yield f"SELECT x, 2 {joined} x {after} AS r FROM a"
    for before, one in product(_BEFORE, _NUMBERS):
        yield f"SELECT {before} 7 {one} 2 AS r"
        yield f"SELECT 7 {one} {before} 2 AS r"
    for before, after in product(_BEFORE, _AFTER):
        yield f"SELECT x, {before} x {after} AS r FROM a"
