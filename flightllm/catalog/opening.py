"""Opens catalog entries: gives each the DataFusion provider that reads it."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import structlog
from datafusion.catalog import Table

from flightllm.catalog.entries import ConvertedSource, Entry
from flightllm.catalog.files import known_table
from flightllm.catalog.memory import memory_table
from flightllm.datafusion.contexts import scratch_context
from flightllm.errors import PermissionDeniedError
from flightllm.file_formats.paths import FORMATS
from flightllm.storage.folder import TablesFolder
from flightllm.storage.places import Places

_log = structlog.get_logger(__name__)


def opened(entry: Entry, folder: TablesFolder, places: Places, *, written: bool = True) -> Entry:
    """Return an entry with its provider; reads no file. Plain views are planned elsewhere and are returned unchanged.

    Files that an earlier run wrote (`written` is False) count as missing if they cannot be used.

    Raises:
        LimitExceededError: the disk is full.
        InternalError: links to the files cannot be made.
    """
    if entry.kind == "ai_view" and entry.provider is None:
        return replace(entry, provider=memory_table([], entry.schema))
    if entry.kind == "external" and entry.provider is None:
        return _opened_external(entry, places)
    if entry.rows is None or (entry.provider is not None and entry.rows.folder is not None):
        return entry
    if not entry.rows.files:
        return replace(entry, provider=memory_table([], entry.schema))
    suffix = Path(entry.rows.files[0].name).suffix
    links = folder.link([file.name for file in entry.rows.files], suffix, written=written)
    rows = replace(entry.rows, folder=links)
    return replace(entry, provider=rows_table(f"{links}/", suffix, entry.schema), rows=rows)


def _opened_external(entry: Entry, places: Places) -> Entry:
    """Return an external table with its provider; a table whose place is no longer listed is returned unchanged."""
    try:
        place = places.checked(entry.location)
    except PermissionDeniedError as error:
        _log.warning("an external table cannot be read", table=entry.name.display, error=str(error))
        return entry
    is_converted = FORMATS[entry.format.lower()] in {"csv", "json"} or entry.csv.filename
    if isinstance(place, Path) and is_converted:  # before the first query
        return replace(entry, provider=memory_table([], entry.schema), path=place, source=ConvertedSource())
    table = known_table(entry.location, entry.format, entry.schema, places.stores, entry.csv)
    return replace(entry, provider=table, path=place if isinstance(place, Path) else None)


def rows_table(location: str, suffix: str, schema: pa.Schema) -> Table:
    """Return a table over one data file, or over a folder of data files in the order of their names."""
    context = scratch_context()
    if suffix == ".parquet":
        context.register_parquet("t", location, file_extension=suffix, schema=schema)
    else:
        context.register_arrow("t", location, file_extension=suffix, schema=schema)
    return context.catalog().schema("public").table("t")
