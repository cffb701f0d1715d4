"""External tables: an admin's statement names files in a place that the configuration allows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flightllm.catalog.converted import converted_format, converted_table, kept_if_taken
from flightllm.catalog.entries import Entry
from flightllm.catalog.files import FileTable, file_suffix, open_address, opened_file
from flightllm.catalog.statements import check_create, target_of
from flightllm.catalog.store import TableStore
from flightllm.common.names import TableName
from flightllm.errors import InvalidInputError
from flightllm.file_formats.options import CsvOptions
from flightllm.file_formats.paths import FORMATS
from flightllm.sql.external_tables import OPTION
from flightllm.sql.statement import Statement


def create_external(store: TableStore, statement: Statement, owner: str, stopped: Callable[[], bool]) -> None:
    """Create an external table. See `Catalog.create_external`."""
    name, wanted = target_of(statement), statement.options["format"]
    if not check_create(store, statement):
        return
    place = store.places.checked(statement.options["location"])
    written = {name.removeprefix(OPTION): text for name, text in statement.options.items() if name.startswith(OPTION)}
    csv = CsvOptions.of(written, wanted)
    found, suffix = _found(store, place, wanted, csv, stopped)
    with kept_if_taken(found, store.folder) as copy:
        entry = _entry(name, place, wanted, csv, found, suffix, owner)
        with store.lock:
            if check_create(store, statement):
                store.put(entry)
                copy.take()


def _entry(
    name: TableName, place: Path | str, wanted: str, csv: CsvOptions, found: FileTable, suffix: str, owner: str
) -> Entry:
    """Return the entry of an external table.

    Raises:
        InvalidInputError: the columns need a cast, or a CSV file seems to have another delimiter.
    """
    given: dict[str, Any] = {"provider": None, "csv": csv}
    if found.source is not None:
        given |= {"path": place, "provider": found.table, "source": found.source}
    if found.needs_cast:
        raise InvalidInputError("its columns are dictionaries, views, or large texts or lists: write them as Parquet")
    if wanted == "csv":
        found.check_separator(csv)
    location = f"{place}/" if isinstance(place, Path) and place.is_dir() else str(place)
    return Entry(name, "external", found.schema, owner=owner, location=location, format=suffix, **given)


def _found(
    store: TableStore, place: Path | str, wanted: str, csv: CsvOptions, stopped: Callable[[], bool]
) -> tuple[FileTable, str]:
    """Return the table at a place, and the ending of its file names, if the files have the wanted format."""
    endings = [suffix for suffix, kind in FORMATS.items() if kind == wanted]
    if isinstance(place, str):
        if csv.filename or csv.hive_partitioning is not None or (wanted == "json" and csv.types):
            raise InvalidInputError(
                "filename, hive_partitioning, and types of JSON are only for files on the server's disk: copy the files"
            )
        return open_address(place, store.places.stores, endings, csv)
    found = converted_format(place, csv)
    if found is not None and wanted == ("csv" if found == "sheet" else found):
        return converted_table(place, csv, "", store.folder, store.limits.memory_bytes, stopped), f".{wanted}"
    suffix = file_suffix(place)
    if suffix.lower() not in endings:
        raise InvalidInputError(
            f"the names of {wanted.upper()} files end in {', '.join(endings)}; these end in {suffix}"
        )
    return opened_file(place, suffix, csv), suffix
