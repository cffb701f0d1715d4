"""CSV and JSON files, folders of these, and sheets as tables: the server reads each through its Parquet copy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow.parquet as pq

from flightllm.catalog.conversion import convert
from flightllm.catalog.entries import ConvertedSource
from flightllm.catalog.files import ConvertedTable, FileTable, files_revision, is_document, is_folder_of_documents
from flightllm.datafusion.contexts import scratch_context
from flightllm.errors import InvalidInputError
from flightllm.file_formats.compressed import ending
from flightllm.file_formats.conversion import Conversion
from flightllm.file_formats.json_values import ENDINGS as JSON_ENDINGS
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions
from flightllm.file_formats.parquet_files import hides_nan
from flightllm.file_formats.parts import ENDINGS
from flightllm.file_formats.paths import files_of, is_pattern
from flightllm.storage.folder import TablesFolder

_FORMATS = dict.fromkeys((".csv", ".tsv", ".tab", ".dat", ".txt"), "csv") | dict.fromkeys(JSON_ENDINGS, "json")
_NAME = "rows.parquet"
_Found = TypeVar("_Found", bound=FileTable)
_TRIES = 3
"""How often to read a file that changes while it is read."""


def sheet_of(path: Path) -> tuple[Path, str]:
    """Return the path of a file, and the sheet that the path names after a `#`."""
    file, mark, sheet = str(path).partition("#")
    while mark and not file.lower().endswith(ENDINGS):
        more, mark, sheet = sheet.partition("#")
        file = f"{file}#{more}"
    return (path, "") if not mark or path.exists() else (Path(file), sheet)


def converted_format(path: Path, known: CsvOptions = NOTHING_SAID) -> str | None:
    """Return the format of a file or folder that is read through a Parquet copy, or None.

    It is `csv`, `json`, `text` for documents, or `sheet` for a file that holds several tables. It is `parquet` for
    Parquet files that get the column `filename`, or that hide NaN; see `hides_nan`.
    """
    files = files_of(path)
    if {ending(file) for file in files} == {".parquet"} and (known.filename or any(map(hides_nan, files))):
        return "parquet"
    if path.is_file() and is_document(path):
        return "text"
    if path.is_dir() and is_folder_of_documents(path):
        return "text"
    if path.is_dir() or is_pattern(path):
        found = {_FORMATS.get(ending(file)) for file in files_of(path)}
        return found.pop() if len(found) == 1 else None
    return "sheet" if path.name.lower().endswith(ENDINGS) else _FORMATS.get(ending(path))


def converted_table(
    path: Path,
    csv: CsvOptions,
    sheet: str,
    folder: TablesFolder,
    memory_bytes: int,
    stopped: Callable[[], bool],
    *,
    form: str = "",
) -> ConvertedTable:
    """Return the table of CSV or JSON files, or of a sheet; reads all rows. See `Conversion` for `form`.

    Raises:
        CancelledError: `stopped()` turned true.
        LimitExceededError: reading takes more memory than `memory_bytes`.
        InvalidInputError: the file does not exist or cannot be read; the message says where.
    """
    any_name = bool(form)
    if not form and (found := converted_format(path, csv)) in {"text", "parquet"}:
        form, any_name = found, found == "text"
    work = Conversion(path, csv, sheet, Path(_NAME), form)
    for _ in range(_TRIES):
        revision = files_revision(path, any_name=any_name)
        if not revision:
            raise InvalidInputError("there is no file of this name, or the folder has no file")
        with kept_if_taken(_converted(work, folder, revision, memory_bytes, stopped), folder) as copy:
            if files_revision(path, any_name=any_name) == revision:
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


def _converted(
    work: Conversion, folder: TablesFolder, revision: str, memory_bytes: int, stopped: Callable[[], bool]
) -> ConvertedTable:
    place = folder.new_reading()
    target = place / _NAME
    try:
        notes = convert(replace(work, target=target), memory_bytes, stopped)
        schema = pq.read_schema(target)
    except BaseException:
        folder.readers.retire(place)
        raise
    context = scratch_context()
    context.register_parquet("t", str(target), file_extension=".parquet", schema=schema)
    table = context.catalog().schema("public").table("t")
    return ConvertedTable(
        table, schema, schema, ConvertedSource(str(target), revision, sheet=work.sheet, form=work.form), tuple(notes)
    )
