"""Messy JSON files, and folders of files, for `bench.messy`."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.messy_csv import Case, Column, Shape, days, moments, names_of, table, texts, whole_numbers, with_gaps

_TAGS: Final = pa.list_(pa.string())
_PLACE: Final = pa.struct([("city", pa.string()), ("floor", pa.int64())])


def _plain(column: Column) -> list[Any]:
    """Return the values as JSON has them: dates and times are texts."""
    kept = column.type in {pa.int64(), pa.float64(), pa.bool_(), _TAGS, _PLACE}
    written = column.values if kept else column.cells
    return [None if value is None else cell for value, cell in zip(column.values, written, strict=True)]


def _records(names: Sequence[str], columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_plain, columns), strict=True)]


def _lines(records: Sequence[Any]) -> str:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def _array(records: Sequence[Any]) -> str:
    return json.dumps(records, ensure_ascii=False)


def _pretty(records: Sequence[Any]) -> str:
    return json.dumps(records, ensure_ascii=False, indent=2)


def _pretty_values(records: Sequence[Any]) -> str:
    return "\n".join(json.dumps(record, ensure_ascii=False, indent=4) for record in records)


_FORMS: Final[Sequence[Callable[[Sequence[Any]], str]]] = (_lines, _array, _pretty, _pretty_values)
_Made = tuple[list[str], list[Column], str]


def _shapes(random: Random, number: int) -> _Made:
    columns = table(random)
    names = names_of(random, columns)
    return names, columns, _FORMS[number % 4](_records(names, columns))


def _late_fields(random: Random, number: int) -> _Made:
    columns = table(random)
    names = names_of(random, columns)
    extra = texts(random, len(columns[0].values))
    late = [None if place < len(extra.values) - 2 else value for place, value in enumerate(extra.values)]
    columns.append(replace(extra, values=late))
    names.append("extra")
    records = [{name: value for name, value in one.items() if value is not None} for one in _records(names, columns)]
    return names, columns, _FORMS[number % 4](records)


def _mixed(random: Random, number: int) -> _Made:
    """Return a field with numbers and texts: as texts, each value is what the file has."""
    rows = random.randrange(8, 30)
    given = [place if place % 3 else f"no {place}" for place in range(rows)]
    values = [str(value) for value in given]
    columns = [whole_numbers(random, rows), Column(pa.string(), values, values)]
    records = [{"id": one, "v": value} for one, value in zip(columns[0].values, given, strict=True)]
    return ["id", "v"], columns, _FORMS[number % 4](records)


def _scalars(random: Random, number: int) -> _Made:
    column = (whole_numbers, texts)[number % 2](random, 12)
    return ["json"], [column], (_lines, _array)[number // 2 % 2](_plain(column))


def _nested(random: Random, number: int) -> _Made:
    rows = random.randrange(8, 30)
    tags = [[random.choice(("new", "old", "red")) for _ in range(place % 3)] for place in range(rows)]
    places = [{"city": random.choice(("Köln", "Lyon")), "floor": random.randrange(9)} for _ in range(rows)]
    columns = [whole_numbers(random, rows), Column(_TAGS, tags, []), Column(_PLACE, places, [])]
    names = ["id", "tags", "place"]
    return names, columns, _FORMS[number % 4](_records(names, columns))


def _dates(random: Random, number: int) -> _Made:
    rows = random.randrange(8, 30)
    columns = [whole_numbers(random, rows), (days, moments)[number % 2](random, rows), texts(random, rows)]
    if number % 3 == 2:
        columns[1] = with_gaps(random, columns[1])
    if number % 4 == 3:
        columns[1] = columns[1].shown(lambda value: value.isoformat())
    names = ["id", "at", "note"]
    return names, columns, _FORMS[number % 4](_records(names, columns))


_JSON: Final[Mapping[str, tuple[Callable[[Random, int], _Made], int]]] = {
    "JSON shapes": (_shapes, 16),
    "JSON late fields": (_late_fields, 8),
    "JSON mixed types": (_mixed, 8),
    "JSON scalars": (_scalars, 4),
    "JSON nested": (_nested, 8),
    "JSON dates": (_dates, 12),
}
_PARTS: Final = 3


def json_cases(seed: int) -> Iterator[Case]:
    """Yield the JSON files; a seed always gives the same files."""
    for family, (make, count) in _JSON.items():
        for number in range(count):
            random = Random(f"{seed} {family} {number}")  # noqa: S311 - test data
            names, columns, text = make(random, number)
            encoding = "utf-8-sig" if number % 5 == 4 else "utf-8"
            name = "rows.jsonl" if number % 8 == 0 else "rows.json"
            yield Case(family, f"{family} {number}", {name: text.encode(encoding)}, names, columns)


def _csv_part(names: Sequence[str], columns: Sequence[Column]) -> bytes:
    return Shape().write(names, columns)


def _json_part(names: Sequence[str], columns: Sequence[Column]) -> bytes:
    return _lines(_records(names, columns)).encode()


def _parquet_part(names: Sequence[str], columns: Sequence[Column]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table([pa.array(one.values, one.type) for one in columns], names=list(names)), sink)
    return sink.getvalue()


_WRITERS: Final = (("csv", _csv_part), ("json", _json_part), ("parquet", _parquet_part))


def folder_cases(seed: int) -> Iterator[Case]:
    """Yield folders of numbered parts, and folders whose names have the values of columns, in each format."""
    for number in range(6):
        random = Random(f"{seed} parts {number}")  # noqa: S311 - test data
        columns = table(random, plain=True)
        names = names_of(random, columns)
        ending, write = _WRITERS[number % len(_WRITERS)]
        files = {
            f"rows/part-{part:04}.{ending}": write(names, [_part(one, part) for one in columns])
            for part in range(_PARTS)
        }
        yield Case("folders: parts", f"parts {number}", files, names, columns, duckdb=f"rows/*.{ending}")
    for number in range(9):
        random = Random(f"{seed} keys {number}")  # noqa: S311 - test data
        columns = table(random, plain=True)
        names = names_of(random, columns)
        ending, write = _WRITERS[number % len(_WRITERS)]
        keys: Sequence[Any] = ((2023, 2024, 2025), ("east", "north", "west"))[number % 2]
        files = {
            f"rows/key={key}/rows-{part}.{ending}": write(names, [_part(one, part) for one in columns])
            for part, key in enumerate(keys)
        }
        sizes = [len(_part(columns[0], part).values) for part in range(_PARTS)]
        values = [key for key, size in zip(keys, sizes, strict=True) for _ in range(size)]
        key = Column(pa.string() if number % 2 else pa.int64(), values, list(map(str, values)))
        pattern = f"rows/*/*.{ending}"
        yield Case("folders: keys", f"keys {number}", files, [*names, "key"], [*columns, key], duckdb=pattern)


def _part(column: Column, part: int) -> Column:
    """Return one of the parts of a column."""
    size = -(-len(column.values) // _PARTS)
    place = slice(part * size, (part + 1) * size)
    return replace(column, values=column.values[place], cells=column.cells[place])
