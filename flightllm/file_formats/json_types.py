"""Finds the types of JSON fields from all rows."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flightllm.common.text import json_text
from flightllm.common.written_float import WrittenFloat
from flightllm.errors import InvalidInputError
from flightllm.file_formats.columns import MOST_COLUMNS
from flightllm.file_formats.kinds import DATES, ColumnKinds, TypePattern

_DEEPEST = 30
"""Values below this many levels stay JSON texts, because readers of nested types recurse."""
_MOST_FIELDS = 1_000
"""An object in a field with more names than this stays a JSON text: its names are values, such as identifiers."""
_MOST_SHAPES = 1 << 16
"""The most names in the shapes that a field remembers."""
_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1
EXACT = 1 << 53
"""DOUBLE has each whole number up to this."""
DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?:.*\S)?)?\Z")
"""Matches texts that can be dates with or without a time."""
_AT_ONCE = 4_096
_WORDS = {bool: "true or false", int: "a number", float: "a number", str: "a text", dict: "an object", list: "an array"}
_SHOWN = 8
"""The most fields that a note names."""

Convert = Callable[[Any], Any]
_Look = tuple[str, Callable[[Any, int], None]]


@dataclass(frozen=True, slots=True)
class Column:
    """How to write a field: values that `convert` returns get the type `given`, and are then cast to `type`."""

    given: pa.DataType
    type: pa.DataType
    convert: Convert | None = None

    def array(self, values: Iterable[Any]) -> pa.Array:
        """Return values of the field as an array."""
        convert = self.convert
        listed = list(values) if convert is None else [None if one is None else convert(one) for one in values]
        made = pa.array(listed, self.given)
        return made if self.given == self.type else _cast(made, self.type)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array with texts cast to dates, at any level.

    `Array.cast` fails for an object that is NULL, because pyarrow stores an empty text in its fields.
    """
    if pa.types.is_struct(kind):
        parts = [_cast(part, field.type) for part, field in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            array.offsets, _cast(array.values, kind.value_type), type=kind, mask=array.is_null()
        )
    return TypePattern(kind, "").cast(array)


class Notes:
    """Lists of the fields whose values a conversion changes; each becomes one line."""

    def __init__(self) -> None:
        self.mixed: list[str] = []
        self.rounded: list[str] = []
        self.deep: list[str] = []

    def lines(self) -> list[str]:
        """Return the notes."""
        said = (
            (self.mixed, "fields with values of several types are texts"),
            (self.deep, "fields that are nested too deep, or have too many names, are JSON texts"),
            (self.rounded, "fields with numbers of too many digits are rounded to DOUBLE"),
        )
        return [f"{what}: {_listed(fields)}" for fields, what in said if fields]


class Field:
    """The types of one field, given all values seen so far."""

    __slots__ = ("_dates", "_depth", "_shapes", "_size", "_texts", "_whole", "deep", "fields", "first", "item")

    def __init__(self, depth: int = 0) -> None:
        self.first: dict[type, int] = {}
        """The first row of each type."""
        self.fields: dict[str, Field] = {}
        """The fields of objects."""
        self.item: Field | None = None
        """The elements of arrays."""
        self.deep = False
        """Whether values stay JSON texts because they are nested too deep or have too many names."""
        self._depth = depth
        self._shapes: dict[tuple[tuple[str, ...], tuple[type, ...]], list[_Look]] = {}
        self._size = 0
        self._whole = 0
        """The largest absolute whole number."""
        self._dates: ColumnKinds | None = ColumnKinds(kinds=DATES)
        """The types that all texts fit, or None."""
        self._texts: list[str] = []
        """Texts that `_dates` has not seen yet."""

    def see(self, value: Any, row: int) -> None:
        """Take one more value into account; `row` counts from 1."""
        if value is None:
            return
        kind = type(value)
        self.first.setdefault(kind, row)
        if look := self._look(kind):
            look(value, row)

    def _look(self, kind: type) -> Callable[[Any, int], None] | None:
        """Return the function that looks at values of a type; None if the type says all."""
        if kind is str:
            return self._see_text
        if kind is int:
            return self._see_whole
        if kind is dict:
            return self._see_object
        return self._see_array if kind is list else None

    def _see_whole(self, value: int, _row: int) -> None:
        if value > self._whole or -value > self._whole:
            self._whole = abs(value) - (value == _LEAST)

    def _see_text(self, value: str, _row: int) -> None:
        if self._dates is None:
            return
        if not DATE.match(value):
            self._dates = None
            return
        self._texts.append(value)
        if len(self._texts) == _AT_ONCE:
            self._see_dates()

    def _see_dates(self) -> None:
        if self._dates is not None and self._texts:
            self._dates.see(pa.array(self._texts, pa.string()))
            if self._dates.type == pa.string():
                self._dates = None
        self._texts = []

    def _see_array(self, value: list[Any], row: int) -> None:
        if self._depth == _DEEPEST:
            self.deep = True
            return
        self.item = item = self.item or Field(self._depth + 1)
        kinds = {*map(type, value)}
        if kinds <= {float, bool}:  # quick, for example for vectors
            for kind in kinds:
                item.first.setdefault(kind, row)
            return
        for one in value:
            item.see(one, row)

    def _see_object(self, value: dict[str, Any], row: int) -> None:
        """Take an object into account. For all objects of one shape, the fields are looked up only once."""
        if self.deep:
            return
        shape = (tuple(value), tuple(map(type, value.values())))
        looks = self._shapes.get(shape)
        if looks is None:
            looks = self._new_shape(value, row)
            self._size += len(value)
            if self._size > _MOST_SHAPES:
                self._shapes.clear()
                self._size = len(value)
            self._shapes[shape] = looks
        for name, look in looks:
            look(value[name], row)

    def _new_shape(self, value: dict[str, Any], row: int) -> list[_Look]:
        if self._depth == _DEEPEST:
            self.deep = True
            return []
        looks = []
        for name, one in value.items():
            field = self.fields.get(name)
            if field is None:
                field = self.fields[name] = Field(self._depth + 1)
            if one is None:
                continue
            field.first.setdefault(type(one), row)
            if look := field._look(type(one)):
                looks.append((name, look))
        most = _MOST_FIELDS if self._depth else MOST_COLUMNS
        if len(self.fields) > most:
            if not self._depth:
                raise InvalidInputError(
                    f"row {row:,}: the rows have more than {MOST_COLUMNS:,} different names, but each name is a column:"
                    " write the names as values"
                )
            self.deep = True
            self.fields.clear()
            return []
        return looks

    def column(self, path: str, notes: Notes) -> Column:
        """Return how to write the field; `path` names the field in notes."""
        self._see_dates()
        kinds = {*self.first}
        if len(kinds) > 1 and kinds != {int, float}:
            return self._mixed(path, notes)
        if self.deep or (kinds == {dict} and not self.fields):
            if self.deep:
                notes.deep.append(path)
            return Column(pa.string(), pa.string(), written_json)
        if kinds == {dict}:
            return self._struct(path, notes)
        if kinds == {list} and self.item is not None:
            item = self.item.column(f"{path}[]", notes)
            return Column(pa.list_(item.given), pa.list_(item.type), _each(item.convert))
        if kinds and kinds <= {int, float}:
            return self._number(path, notes)
        if kinds == {bool}:
            return Column(pa.bool_(), pa.bool_())
        return Column(pa.string(), pa.string() if self._dates is None else self._dates.type)

    def _number(self, path: str, notes: Notes) -> Column:
        if self._whole <= _LARGEST and float not in self.first:
            return Column(pa.int64(), pa.int64())
        if self._whole > EXACT:
            notes.rounded.append(path)
        return Column(pa.float64(), pa.float64(), float if int in self.first else None)

    def _struct(self, path: str, notes: Notes) -> Column:
        columns = {name: field.column(f"{path}.{name}", notes) for name, field in self.fields.items()}
        changed = {name: column.convert for name, column in columns.items() if column.convert is not None}
        return Column(
            pa.struct([(name, column.given) for name, column in columns.items()]),
            pa.struct([(name, column.type) for name, column in columns.items()]),
            _fields(changed),
        )

    def _mixed(self, path: str, notes: Notes) -> Column:
        (one, _), (other, row) = sorted(self.first.items(), key=lambda pair: pair[1])[:2]
        if {one, other} == {int, float}:
            other, row = sorted(self.first.items(), key=lambda pair: pair[1])[2]
        nested = not self.first.keys().isdisjoint({dict, list})
        first = _WORDS[one] if one is not other else ""
        notes.mixed.append(f"{path} ({first} first, {_WORDS[other]} in row {row:,}{'; as JSON' if nested else ''})")
        return Column(pa.string(), pa.string(), written_json if nested else scalar_text)


def scalar_text(value: Any) -> str:
    """Return the text of a value other than an object or array, as in the file."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, WrittenFloat) else json.dumps(value)


def value_text(value: Any) -> str:
    """Return the text of a value as in the file; of an object or array, its JSON."""
    return written_json(value) if isinstance(value, dict | list) else scalar_text(value)


def written_json(value: Any) -> str:
    """Return a value as JSON without blanks, a number with the digits of the file."""
    return value.text if isinstance(value, WrittenFloat) else json_text(value, is_compact=True)


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda values: [None if one is None else convert(one) for one in values]


def _fields(changed: dict[str, Convert]) -> Convert | None:
    """Return a function that converts some fields of an object, or None if there are no such fields."""
    if not changed:
        return None

    def converted(value: dict[str, Any]) -> dict[str, Any]:
        new = {name: convert(value[name]) for name, convert in changed.items() if value.get(name) is not None}
        return {**value, **new}

    return converted


def _listed(fields: Sequence[str]) -> str:
    more = f" and {len(fields) - _SHOWN:,} others" if len(fields) > _SHOWN else ""
    return ", ".join(fields[:_SHOWN]) + more
