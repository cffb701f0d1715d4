"""Files, folders and addresses as tables with their names."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from flightllm.config import CsvFile, FolderFile, LimitsConfig, TablePlace
from flightllm.engines.secrets import shown_address
from flightllm.errors import ConfigError, FlightLLMError
from flightllm.file_formats.table_names import stem, table_name

Note = Callable[[str], None]
_NUMBER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")
"""Matches an identifier or a number in a file's name."""


def named_tables(
    sources: Sequence[str], note: Note, csv: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, TablePlace]]:
    """Return an SQL name and the path for each file, and for each folder whose files are parts of one table.

    In a folder with different files, each file becomes a table; in a spreadsheet, each sheet does. `note` gets a
    message for each name that differs from the file's name, and for each file that is left out. `csv` has options for
    CSV files, by name.

    Raises:
        ConfigError: a source does not exist, cannot be downloaded, or contains nothing that can be a table.
    """
    found: dict[str, TablePlace] = {}
    for source in sources:
        for wanted, place in _tables(source, note):
            name, number = table_name(wanted), 1
            plain = name
            while name in found:
                number += 1
                name = f"{plain}_{number}"
            if name != wanted:
                note(f"{shown_address(place) if isinstance(place, str) else place} is the table {name}")
            found[name] = with_options(place, csv)
    return list(found.items())


def with_options(place: TablePlace, csv: Sequence[tuple[str, str]]) -> TablePlace:
    """Return a place with options for CSV files."""
    if isinstance(place, FolderFile):
        return replace(place, csv=tuple(csv))
    return CsvFile(place, tuple(csv)) if csv and isinstance(place, Path) else place


def _tables(source: str, note: Note) -> Iterator[tuple[str, TablePlace]]:
    """Yield the tables of a source, under the names of the files."""
    from flightllm.file_formats.paths import files_of, is_pattern

    if source.lower().startswith(("http://", "https://")):
        from flightllm.connection.download import download

        yield from _in_file(download(source, Path.cwd(), note))
        return
    if "://" in source:
        if not source.startswith("s3://"):
            raise ConfigError(f"{shown_address(source)}: an address begins with https://, http:// or s3://")
        yield stem(PurePosixPath(source.rstrip("/"))), source
        return
    path = Path(source).expanduser().absolute()
    if is_pattern(path) and (files := files_of(path)):
        for file in files:
            yield from _in_file(file)
        return
    if not path.exists():
        raise ConfigError(f"there is no file or folder {path}")
    found = list[tuple[str, TablePlace]](_in_folder(path, note) if path.is_dir() else _in_file(path))
    if not found:
        raise ConfigError(f"the folder {path} holds no file that can be a table; see `flightllm serve --help`")
    yield from found


def _in_file(path: Path) -> Iterator[tuple[str, Path]]:
    """Yield a file, or the tables in it, such as the sheets of a spreadsheet.

    Raises:
        ConfigError: the file cannot be read.
    """
    from flightllm.catalog.conversion import sheet_names
    from flightllm.file_formats.excel import ENDINGS as SHEETS
    from flightllm.file_formats.parts import ENDINGS

    own = stem(path)
    if not path.name.lower().endswith(ENDINGS):
        yield own, path
        return
    try:
        names = sheet_names(path, LimitsConfig().memory_bytes, lambda: False)
    except FlightLLMError as error:
        raise ConfigError(f"{path}: {error}") from error
    for sheet in names:
        name = own if len(names) == 1 else f"{own}_{sheet}"
        if not path.name.lower().endswith(SHEETS):
            name = stem(PurePosixPath(sheet))
        yield name, Path(f"{path}#{sheet}")


def _in_folder(folder: Path, note: Note) -> Iterator[tuple[str, TablePlace]]:
    """Yield the folder in the command line if it is one table, or else the files in it, marked as `FolderFile`."""
    from flightllm.catalog.files import is_document, is_folder_of_documents
    from flightllm.file_formats.paths import data_files, is_data_folder

    if is_data_folder(folder):
        raise ConfigError(f"{folder} is a data folder of FlightLLM, and not a folder of files: open it as data_folder")
    if is_folder_of_documents(folder):
        yield folder.name, folder
        return
    texts = {file for file in data_files(folder) if is_document(file)}
    files = {*data_files(folder)} - texts
    others = [path for path in sorted(folder.rglob("*")) if path.is_file() and path not in files]
    if others:
        more = f" and {len(others) - 1:,} other files are" if others[1:] else " is"
        note(f"{others[0]}{more} left out: hidden, or not table files by their names or content")
    for name, path in _tables_below(folder, note):
        yield name, path if path == folder else FolderFile(path, folder)


def _tables_below(folder: Path, note: Note) -> Iterator[tuple[str, Path]]:
    """Yield a folder that is one table, or the tables of its files and subfolders."""
    from flightllm.catalog.files import is_document, partitions
    from flightllm.file_formats.paths import data_files

    files = [file for file in data_files(folder) if not is_document(file)]
    if len(files) > 1 and (_numbered(files) or partitions(folder)) and _alike(files):
        yield folder.name, folder
        return
    for path in sorted({folder / file.relative_to(folder).parts[0] for file in files}):
        if path.is_dir():
            yield from _tables_below(path, note)
            continue
        try:
            yield from _in_file(path)
        except ConfigError as error:
            note(f"left out: {error}")


def _numbered(files: Sequence[Path]) -> bool:
    """Return whether the names differ only in numbers or identifiers, as in `part-0001` and `2024-01`."""
    return len({_NUMBER.sub("0", file.name.lower()) for file in files}) == 1


def _alike(files: Sequence[Path]) -> bool:
    """Return whether files are the parts of one table: they have the same format and the same columns."""
    first = _columns(files[0])
    return bool(first) and all(file.suffix == files[0].suffix and _columns(file) == first for file in files[1:])


def _columns(file: Path) -> Sequence[object]:
    """Return a value that identifies a file's columns; empty if they are unknown or the file cannot be read."""
    from flightllm.file_formats.compressed import ending
    from flightllm.file_formats.json_values import JsonValues
    from flightllm.file_formats.options import NOTHING_SAID
    from flightllm.file_formats.rows import DAMAGED, CsvRows

    try:
        match ending(file):
            case ".parquet":
                return list(pq.read_schema(file))
            case ".csv" | ".tsv" | ".tab" | ".dat" | ".txt":
                with CsvRows(file, NOTHING_SAID) as rows:
                    return rows.first
            case ".json" | ".jsonl" | ".ndjson":
                with closing(JsonValues(file)) as values:
                    return sorted(next(iter(values)))
            case ".arrow" | ".feather" | ".ipc":
                return list(_arrow_schema(file))
    except (*DAMAGED, FlightLLMError, ValueError, TypeError, StopIteration):
        return ()
    return ()


def _arrow_schema(file: Path) -> pa.Schema:
    with pa.memory_map(str(file)) as source:
        try:
            return pa.ipc.open_file(source).schema
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).schema


DEMONSTRATION = (
    "no model is configured, so the demonstration model answers AI functions: it can answer the questions of `flightllm"
    " demo`, and hardly any others. `flightllm init` chooses a model"
)
