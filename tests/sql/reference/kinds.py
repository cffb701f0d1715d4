"""The kinds of texts: those of a generator, and those written by hand, a file for each kind."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.sql.reference import nested_texts, null_texts, operator_texts, subquery_texts, typed_texts
from tests.sql.reference.answers import ROWS

_BY_HAND: Final = Path(__file__).parent / "texts"
_GENERATED: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "arithmetic": typed_texts.arithmetic,
    "casts": typed_texts.casts,
    "comparisons": typed_texts.comparisons,
    "estimates": typed_texts.estimates,
    "lists_and_rows": null_texts.lists_and_rows,
    "logic": typed_texts.logic,
    "nested_subqueries": nested_texts.nested_subqueries,
    "operators": operator_texts.operators,
    "subqueries": subquery_texts.subqueries,
    "placed_subqueries": subquery_texts.placed_subqueries,
    "subquery_changes": subquery_texts.changes,
}
KINDS: Final = sorted([*_GENERATED, *(path.stem for path in _BY_HAND.glob("*.sql"))])
REFUSED: Final = "errors"
"""The kind of texts that PostgreSQL refuses."""


def generated(kind: str) -> bool:
    """Return whether texts of a kind come from a generator, which also writes texts that are no SQL."""
    return kind in _GENERATED


@cache
def texts(kind: str) -> tuple[str, ...]:
    """Return the texts of a kind, each one once."""
    if kind in _GENERATED:
        return tuple(dict.fromkeys(_GENERATED[kind]()))
    lines = (_BY_HAND / f"{kind}.sql").read_text(encoding="utf-8").splitlines()
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("--")))


def rows_of(kind: str) -> Path:
    """Return the file with PostgreSQL's answers to the texts of a kind."""
    return ROWS / f"{kind}.txt"
