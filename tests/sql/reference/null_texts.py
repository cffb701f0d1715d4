"""Texts that compare with lists, rows and arrays that hold NULL, under AND, OR, NOT and in SELECT."""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Final

_LISTS: Final = (
    *("x IN (1)", "x IN (2)", "x IN (1, 2)", "x NOT IN (1)", "x NOT IN (1, 2)", "x IN (1, NULL)"),
    *("x NOT IN (1, NULL)", "(x = 1 OR x = 2)", "(x = 3 OR x = 4)", "x BETWEEN 2 AND 1", "x = ANY (ARRAY[2])"),
)
_COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=")
_ROWS: Final = ("(1, 1)", "(2, NULL)", "(NULL, 2)", "(g, x)", "ROW(x + 1, g)")
_ROW_LISTS: Final = ("(1, 1), (2, 2)", "(1, 1), (2, NULL)", "(NULL, 1)")
_ROW_TESTS: Final = (
    *("IS NULL", "IS NOT NULL", "IS DISTINCT FROM (1, NULL)", "IS NOT DISTINCT FROM (1, 1)"),
    *("BETWEEN (1, 1) AND (2, 2)", "NOT BETWEEN (1, NULL) AND (2, 2)"),
)
_ARRAYS: Final = ("ARRAY[1, NULL]", "ARRAY[1, 2]", "ARRAY[]::int[]", "ARRAY[NULL]::int[]", "NULL::int[]", "ARRAY[x, 2]")


def lists_and_rows() -> Iterator[str]:
    """Yield pairs of lists, comparisons of rows, and comparisons with ANY and ALL of an array."""
    for (one, other), joined in product(combinations_with_replacement(_LISTS, 2), ("AND", "OR")):
        yield f"SELECT x, ({one} {joined} {other}) AS r, ({one} {joined} {other}) IS NULL AS s FROM a"
        yield f"SELECT x FROM a WHERE {one} {joined} {other}"
        yield f"SELECT x FROM a WHERE NOT ({one} {joined} g > 0 {joined} {other})"
    for sign, row in product(_COMPARISONS, _ROWS):
        yield f"SELECT x, g, (x, g) {sign} {row} AS r FROM a"
        yield f"SELECT x, g FROM a WHERE NOT (x, g) {sign} {row} OR x > 3"
    for sign in _COMPARISONS:
        yield f"SELECT a.x, b.y FROM a JOIN b ON (a.x, a.g) {sign} (b.y, b.g)"
        yield f"SELECT (1, 2) {sign} (1, 2) AS r, (1, NULL) {sign} (2, 1) AS s, (1, NULL) {sign} (1, 1) AS t"
    for listed, negation in product(_ROW_LISTS, ("", "NOT ")):
        yield f"SELECT x, g, (x, g) {negation}IN ({listed}) AS r FROM a"
        yield f"SELECT x, g FROM a WHERE NOT ((x, g) {negation}IN ({listed}) AND x > 1)"
    for test in _ROW_TESTS:
        yield f"SELECT x, g, (x, g) {test} AS r FROM a"
        yield f"SELECT x, g FROM a WHERE (x, g) {test} AND x > 0"
    for sign, word, array in product(_COMPARISONS, ("ANY", "ALL"), _ARRAYS):
        yield f"SELECT x, x {sign} {word} ({array}) AS r FROM a"
        yield f"SELECT x FROM a WHERE NOT x {sign} {word} ({array})"
    for sign, word in product(_COMPARISONS, ("ANY", "ALL")):
        yield f"SELECT id, 2 {sign} {word} (l) AS r, NULL::int {sign} {word} (l) AS s FROM lists"
