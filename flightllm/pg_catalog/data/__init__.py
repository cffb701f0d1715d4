"""The fixed rows of `pg_catalog`, with PostgreSQL's own numbers: `tests/pg_catalog/make_data.py` writes the files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a system relation; `kind` is a name in `pg_type`."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view of `pg_catalog` or `information_schema`."""

    schema: str
    name: str
    kind: str
    oid: int
    columns: tuple[Column, ...]


@cache
def relations() -> Mapping[tuple[str, str], Relation]:
    """Return all relations by schema and name."""
    found = {}
    for line in _lines("relations"):
        path, kind, oid, columns = line.split("\t")
        schema, _, name = path.partition(".")
        parts = [part.partition(" ") for part in columns.split(",")]
        read = tuple(Column(column, of.rstrip("!"), of.endswith("!")) for column, _, of in parts)
        found[schema, name] = Relation(schema, name, kind, int(oid), read)
    return found


@cache
def fixed_rows(name: str) -> Sequence[Mapping[str, str | None]]:
    """Return the rows of a relation that are the same on every server; a value without a text is None."""
    head, *lines = _lines(name)
    names = head.split("\t")
    return [dict(zip(names, (value or None for value in line.split("\t")), strict=True)) for line in lines]


def has_fixed_rows(name: str) -> bool:
    """Return whether a relation has such rows."""
    return (Path(__file__).parent / f"{name}.tsv").exists()


def _lines(name: str) -> list[str]:
    return (Path(__file__).parent / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
