"""Converts plain JSON lines to a Parquet file by pyarrow's reader, several times as fast as value by value."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from flightllm.file_formats.columns import MOST_COLUMNS
from flightllm.file_formats.compressed import open_bytes
from flightllm.file_formats.encodings import encoding_of
from flightllm.file_formats.json_types import DATE, EXACT
from flightllm.file_formats.kinds import DATES, ColumnKinds
from flightllm.file_formats.table_writer import table_writer

_BLOCK = 1 << 22
_LONGEST = 1 << 24
"""Files with longer lines are not plain."""
_ODD = re.compile(rb"^[ \t\r]*[^{\s]|\}[ \t\r]*null", re.MULTILINE)
"""Matches a row that is perhaps not an object: pyarrow's reader crashes at a `null` in place of one."""
_DATE_RE2 = DATE.pattern.replace(r"\Z", r"\z")


class NotPlainError(Exception):
    """The files need the slower reader, which reads each value by itself and can say what is wrong."""


def convert_lines(paths: Sequence[Path], target: Path) -> list[int]:
    """Write the objects of JSON lines to a Parquet file, with types from all rows; return each file's number of rows.

    The files must be large enough for a process of their own, because a fault of pyarrow's reader ends the process.

    Raises:
        NotPlainError: a row is not an object, rows disagree about a field's type, or a file is wrong or unusual.
    """
    try:
        found = _Types(paths)
        return found.write(target)
    except (pa.ArrowException, OSError, EOFError) as error:
        raise NotPlainError from error


class _Types:
    """The types of all fields."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._types: dict[str, pa.DataType] = {}
        self._dates: dict[str, ColumnKinds | None] = {}
        """The dates that the texts of a field can be; None if they are only texts."""
        self._largest: dict[str, int] = {}
        for path in paths:
            with open_bytes(path) as file:
                if encoding_of(file) != "utf-8":
                    raise NotPlainError
            for block in _blocks(path):
                self._see(block)
        lowered = {name.strip().lower() for name in self._types}
        if not self._types or len(lowered) != len(self._types) or "" in lowered or len(lowered) > MOST_COLUMNS:
            raise NotPlainError

    def _see(self, block: bytes) -> None:
        if _ODD.search(block):
            raise NotPlainError
        texts = [name for name, kind in self._types.items() if kind == pa.string()]
        table = _read(block, pa.schema([(name, pa.string()) for name in texts]))
        if times := [field.name for field in table.schema if pa.types.is_timestamp(field.type)]:
            if any(self._types.get(name, pa.null()) != pa.null() for name in times):
                raise NotPlainError
            given = pa.schema([(name, pa.string()) for name in dict.fromkeys([*texts, *times])])
            table = _read(block, given).select(table.schema.names)
        for field, column in zip(table.schema, table.columns, strict=True):
            if field.type == pa.string():
                self._see_texts(field.name, column)
            else:
                _check_leaves(column.combine_chunks())
            self._types[field.name] = _merged(self._types.get(field.name, pa.null()), field.type)

    def _see_texts(self, name: str, column: pa.ChunkedArray) -> None:
        kinds = self._dates.setdefault(name, ColumnKinds(kinds=DATES))
        given = column.drop_null().combine_chunks()
        if kinds is None or not len(given):
            return
        if DATE.match(given[0].as_py()) and pc.all(pc.match_substring_regex(given, f"^(?:{_DATE_RE2})")).as_py():
            kinds.see(given)
        else:
            self._dates[name] = None

    def write(self, target: Path) -> list[int]:
        """Write the rows; return the number of each file."""
        counts = list[int]()
        given = pa.schema([(name, _filled(kind)) for name, kind in self._types.items()])
        kinds = [self._dates.get(field.name) for field in given]
        types = [
            field.type if field.type != pa.string() or kind is None else kind.type
            for field, kind in zip(given, kinds, strict=True)
        ]
        schema = pa.schema(zip(given.names, types, strict=True))
        with table_writer(target, schema) as writer:
            for path in self._paths:
                rows = 0
                for block in _blocks(path):
                    table = _read(block, given).select(given.names).cast(schema)
                    writer.write_table(table)
                    rows += len(table)
                counts.append(rows)
        return counts


def _read(block: bytes, given: pa.Schema) -> pa.Table:
    return pyarrow.json.read_json(
        pa.BufferReader(block),
        pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        pyarrow.json.ParseOptions(explicit_schema=given),
    )


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield whole lines of a file."""
    with open_bytes(path) as file:
        left = b""
        while chunk := file.read(_BLOCK):
            whole, mark, rest = (left + chunk).rpartition(b"\n")
            if whole.strip():
                yield whole + mark
            left = rest
            if len(left) > _LONGEST:
                raise NotPlainError
        if left.strip():
            yield left


def _check_leaves(column: pa.Array) -> None:
    """Raise for values of which the slower reader would say or find more."""
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields:
        for place in range(kind.num_fields):
            _check_leaves(column.field(place))
    elif pa.types.is_list(kind):
        _check_leaves(column.values)
    elif kind in {pa.int64(), pa.float64()}:
        ends = pc.min_max(column).as_py()
        if any(end is not None and abs(end) > EXACT for end in ends.values()):
            raise NotPlainError  # perhaps a whole number that DOUBLE rounds
    elif kind == pa.string():
        given = column.drop_null()
        if len(given) and DATE.match(given[0].as_py()):
            raise NotPlainError
    elif kind not in {pa.bool_(), pa.null()}:
        raise NotPlainError  # an empty object, or dates below the first level


def _merged(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of both; raise if they do not fit."""
    if one == other or other == pa.null():
        return one
    if one == pa.null():
        return other
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_merged(one.value_type, other.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {field.name: field.type for field in one}
        for field in other:
            fields[field.name] = _merged(fields.get(field.name, pa.null()), field.type)
        return pa.struct(list(fields.items()))
    raise NotPlainError


def _filled(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts in place of fields without values."""
    if kind == pa.null():
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_filled(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _filled(field.type)) for field in kind])
    return kind
