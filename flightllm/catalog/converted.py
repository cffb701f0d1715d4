"""CSV files, folders of CSV files, sheets and JSON arrays as tables: the server reads each through its Parquet copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow.parquet as pq

from flightllm.catalog.entries import ConvertedSource
from flightllm.catalog.files import ConvertedTable, FileTable, data_files, files_revision, opened_file
from flightllm.datafusion.contexts import scratch_context
from flightllm.datafusion.errors import plain_text
from flightllm.errors import InvalidInputError
from flightllm.file_formats.compressed import ending
from flightllm.file_formats.csv_files import convert_csv
from flightllm.file_formats.excel import ENDINGS, convert_sheet
from flightllm.file_formats.json_arrays import ENDINGS as JSON_ENDINGS
from flightllm.file_formats.json_arrays import is_json_array, write_lines
from flightllm.file_formats.options import CsvOptions
from flightllm.storage.folder import TablesFolder

CSV_ENDINGS = (".csv", ".tsv")
_NAME = "rows.parquet"
_Found = TypeVar("_Found", bound=FileTable)
_TRIES = 3
"""How often to read a file that changes while it is read."""


def sheet_of(path: Path) -> tuple[Path, str]:
    """Return the path of a file, and the sheet that the path names after a `#`."""
    file, mark, sheet = path.name.rpartition("#")
    if not mark or path.exists() or not file.lower().endswith(ENDINGS):
        return path, ""
    return path.with_name(file), sheet


def is_converted(path: Path) -> bool:
    """Return whether a file or folder is read through a Parquet copy."""
    if path.is_dir():
        return {ending(file) in CSV_ENDINGS for file in data_files(path)} == {True}
    return ending(path) in CSV_ENDINGS or path.name.lower().endswith(ENDINGS) or is_json_array(path)


def converted_table(path: Path, csv: CsvOptions, sheet: str, folder: TablesFolder) -> ConvertedTable:
    """Return the table of a CSV file, of a folder of CSV files, of a sheet or of a JSON array; reads all rows.

    Raises:
        InvalidInputError: the file does not exist or cannot be read; the message says where.
    """
    for _ in range(_TRIES):
        revision = files_revision(path)
        if not revision:
            raise InvalidInputError("there is no file of this name, or the folder has no file")
        with kept_if_taken(_converted(path, csv, sheet, folder, revision), folder) as copy:
            if files_revision(path) == revision:
                return copy.take()
    raise InvalidInputError("it changes while it is read: put a finished file in its place")


class Copy(Generic[_Found]):
    """A converted table. Its Parquet copy is removed at the end, unless the user of the table takes it."""

    def __init__(self, table: _Found) -> None:
        self.table = table
        self.taken = False

    def take(self) -> _Found:
        """Return the table, and keep its Parquet copy."""
        self.taken = True
        return self.table


@contextmanager
def kept_if_taken(table: _Found, folder: TablesFolder) -> Iterator[Copy[_Found]]:
    """Remove a converted table's Parquet copy at the end, unless the body of the `with` block takes the table."""
    copy = Copy(table)
    try:
        yield copy
    finally:
        if isinstance(table, ConvertedTable) and not copy.taken:
            folder.readers.retire(table.copy.parent)


def _converted(path: Path, csv: CsvOptions, sheet: str, folder: TablesFolder, revision: str) -> ConvertedTable:
    place = folder.new_reading()
    target = place / _NAME
    try:
        if path.is_file() and path.name.lower().endswith(ENDINGS):
            notes = convert_sheet(path, sheet, target)
        elif path.is_file() and ending(path) in JSON_ENDINGS:
            notes = _convert_json(path, target)
        else:
            notes = convert_csv(data_files(path) if path.is_dir() else [path], csv, target)
        schema = pq.read_schema(target)
    except BaseException:
        folder.readers.retire(place)
        raise
    context = scratch_context()
    context.register_parquet("t", str(target), file_extension=".parquet", schema=schema)
    table = context.catalog().schema("public").table("t")
    return ConvertedTable(table, schema, schema, ConvertedSource(str(target), revision, sheet=sheet), tuple(notes))


def _convert_json(path: Path, target: Path) -> list[str]:
    """Write the objects of an array to a Parquet file; return notes. Types are those of the same objects in lines.

    Raises:
        InvalidInputError: the file is not an array of non-empty objects; the message says where.
    """
    lines = target.with_suffix(".jsonl")
    try:
        write_lines(path, lines)
        try:
            found = opened_file(lines, lines.suffix)
            scratch_context().read_table(found.table).write_parquet(str(target), compression="zstd")
        except InvalidInputError as error:
            raise InvalidInputError(str(error).replace(str(lines), "the objects of its array")) from error
        except Exception as error:  # DataFusion raises bare exceptions, for example if a later object has another type
            raise InvalidInputError(f"its objects do not fit one table: {plain_text(error)}") from error
    finally:
        lines.unlink(missing_ok=True)
    return []
