"""Find tables, columns and fields whose names have capitals, for unquoted names in any case."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from flightllm.catalog.entries import Entry
from flightllm.common.names import TableName
from flightllm.sql.parsed_text import ParsedText


@dataclass(frozen=True, slots=True)
class _Found:
    """The names with capitals of one moment; each key is a name without case."""

    tables: Mapping[str, Sequence[TableName]] = field(default_factory=dict)
    """The tables with capitals in their names or schemas, by their names."""
    words: frozenset[str] = frozenset()
    """The names of these tables and schemas."""
    columns: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names of columns and fields with capitals, by the names of their tables."""


class Spellings:
    """The names with capitals. Each change of the tables is read once, at the next text; thread-safe."""

    def __init__(self, entries: Callable[[], Mapping[TableName, Entry]]) -> None:
        """Take a function that returns the present tables; a change of the tables replaces their mapping."""
        self._entries = entries
        self._read: tuple[Mapping[TableName, Entry], _Found] = ({}, _Found())
        self._columns: Mapping[TableName, tuple[pa.Schema, frozenset[str]]] = {}

    def named_in(self, text: ParsedText) -> bool:
        """Return whether a text can have an unquoted name of a table, column or field whose name has capitals."""
        found = self._present()
        if not found.words and not found.columns:
            return False
        names, words = text.names, text.words
        if not text.sql.isascii():
            names, words = _without_case(names), _without_case(words)
        if not words.isdisjoint(found.words):
            return True
        named = [found.columns[name] for name in names if name in found.columns]
        return any(not columns.isdisjoint(words) for columns in named) or (bool(named) and "natural" in words)

    def tables(self, schema: str, name: str) -> list[TableName]:
        """Return the tables with capitals in their names that are equal to a schema and a name without case."""
        alike = self._present().tables.get(name.casefold(), ())
        return [one for one in alike if one.schema.casefold() == schema.casefold()]

    def _present(self) -> _Found:
        entries = self._entries()
        before, found = self._read
        if before is not entries:
            found = self._find(entries)
            self._read = entries, found
        return found

    def _find(self, entries: Mapping[TableName, Entry]) -> _Found:
        known, seen = self._columns, dict[TableName, tuple[pa.Schema, frozenset[str]]]()
        tables, columns = dict[str, list[TableName]](), dict[str, frozenset[str]]()
        for key, entry in entries.items():
            before = known.get(key)
            schema = entry.schema
            same = before is not None and before[0] is schema
            capitals = before[1] if before is not None and same else frozenset(_capitals(_names(schema)))
            seen[key] = schema, capitals
            name = key.name.casefold()
            if name != key.name or key.schema.casefold() != key.schema:
                tables.setdefault(name, []).append(key)
            if capitals:
                columns[name] = columns.get(name, frozenset()) | capitals
        self._columns = seen
        spelt = _capitals(part for many in tables.values() for one in many for part in (one.schema, one.name))
        return _Found(tables, frozenset(spelt), columns)


def _without_case(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _capitals(names: Iterable[str]) -> Iterator[str]:
    """Yield the names that are not equal to themselves without case, without case."""
    return (folded for name in names if (folded := name.casefold()) != name)


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """Yield the names of columns and of the fields in them."""
    todo = list(fields)
    while todo:
        one = todo.pop()
        yield one.name
        if pa.types.is_nested(one.type):
            todo += [one.type.field(place) for place in range(one.type.num_fields)]
