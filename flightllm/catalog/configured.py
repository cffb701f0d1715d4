"""Registers the configured tables, and leaves out the unreadable files of a configured folder."""

from collections.abc import Mapping
from pathlib import Path

import structlog

from flightllm.catalog.catalog import Catalog
from flightllm.config import CsvFile, FolderFile, TablePlace
from flightllm.errors import ConfigError, InvalidInputError
from flightllm.file_formats.options import CsvOptions

_log = structlog.get_logger(__name__)


def register_tables(catalog: Catalog, tables: Mapping[str, TablePlace]) -> list[str]:
    """Register tables by name; return notes about their files for the administrator, one line each.

    A file of a folder is left out if it cannot be read. An unreadable file that the configuration names is an error.

    Raises:
        ConfigError: a name is taken or not a SQL name, a named table is unreadable, or a folder has no readable file.
    """
    notes = list[str]()
    problems = dict[Path, str]()
    """The first problem of each folder."""
    read = set[Path]()
    for name, place in tables.items():
        path = place.path if isinstance(place, FolderFile | CsvFile) else place
        options = place.csv if isinstance(place, FolderFile | CsvFile) else ()
        try:
            csv = CsvOptions.of(dict(options))
        except InvalidInputError as error:
            raise ConfigError(f"table {name!r}: {error}") from error
        try:
            opened = catalog.open_file(name, path, csv)
        except ConfigError as error:
            if not isinstance(place, FolderFile):
                raise
            problem = str(error).removeprefix(f"table {name!r}: ")
            problems.setdefault(place.folder, problem)
            notes.append(f"the table {name} is left out: {problem}")
            _log.warning("a table is left out", table=name, path=str(path), error=problem)
            continue
        notes += [f"{name}: {note}" for note in catalog.register_opened(name, path, *opened, csv)]
        if isinstance(place, FolderFile):
            read.add(place.folder)
    for folder, problem in problems.items():
        if folder not in read:
            raise ConfigError(f"no file of the folder {folder} can be read: {problem}")
    return notes
