"""Describe the tables of a query for a sandbox process: as files, or as queries over other tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from flightllm.catalog.catalog import Catalog
from flightllm.catalog.entries import Entry, view_text
from flightllm.catalog.files import file_suffix
from flightllm.catalog.reading import named_in
from flightllm.common.names import STORED_SUFFIX, SYSTEM_SCHEMA, TableName
from flightllm.errors import FlightLLMError, InvalidInputError
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions
from flightllm.sql.parsed_text import mentions

_ALL = "information_schema"
"""A query that reads this schema can list every table."""


@dataclass(frozen=True, slots=True)
class ShippedTable:
    """A table in files, or a view's text; a table with neither has no rows."""

    name: TableName
    schema: pa.Schema
    location: str = ""
    suffix: str = ""
    """The ending of the file names."""
    stored: pa.Schema | None = None
    """The columns as stored, if some need a cast."""
    query: str = ""
    columns: tuple[str, ...] = ()
    csv: CsvOptions = NOTHING_SAID
    restricted: str = ""
    """The query that applies row filters and masks for the principal; empty for a table without them."""


@dataclass(frozen=True, slots=True)
class Shipped:
    """The tables that the principal sees (`seen`), and the tables that row filters and masks read (`below`)."""

    schemas: tuple[str, ...] = ()
    seen: tuple[ShippedTable, ...] = ()
    below: tuple[ShippedTable, ...] = ()
    system: Mapping[str, pa.Schema] = field(default_factory=dict)
    rows: Mapping[str, bytes] = field(default_factory=dict)
    """The rows of the system tables that the query reads, as Arrow streams."""
    suffix: str = STORED_SUFFIX
    """The ending of hidden names."""


def shipped(catalog: Catalog, text: str, copied: Callable[[Entry], str] = lambda _: "") -> Shipped:
    """Return the tables that a query can read: those that its text names, and those that these read in turn.

    `copied` returns the path of an Arrow file with the rows of an attached table, or "" for a table without rows.

    Raises:
        FlightLLMError: the files of a table are gone.
    """
    store, entries = catalog.store, catalog.entries
    text = text.replace(STORED_SUFFIX, " ")
    everything = _ALL in text.lower()
    seen = list(entries.values()) if everything else list(named_in(mentions(text), entries))
    texts = [entry.restricted for entry in seen if entry.restricted]
    base = catalog.whole_entries
    below = {entry.name: entry for entry in seen if entry.restricted}
    for condition in texts:
        below |= {
            entry.name: base[entry.name] for entry in named_in(mentions(condition.replace(STORED_SUFFIX, " ")), base)
        }
    read = {entry.name for entry in _read_by(text, [*seen, *below.values()])}
    copies = {name: (copied(base[name]), ".arrow") for name in sorted(read)}
    system = store.system.schemas if store.system else {}
    words = " ".join([text, *(entry.query for entry in seen)]).lower()
    asked = [name for name in system if SYSTEM_SCHEMA in words and name.lower() in words]
    own = (entry.name.schema for entry in seen)
    return Shipped(
        # the store does not list the schemas of temporary tables
        tuple(schema for schema in dict.fromkeys([*store.schemas(), *own]) if schema != SYSTEM_SCHEMA),
        tuple(_readable(seen, entries, copies)),
        tuple(_readable(below.values(), base, copies)),
        dict(system),
        {name: _stream(catalog.system_rows(name)) for name in asked},
    )


def _read_by(text: str, seen: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the tables of attached databases that a query reads, as far as its words and its views tell."""
    entries = list(seen)
    words = mentions(" ".join([text, *(entry.query + entry.restricted for entry in entries)]))
    for entry in entries:
        if entry.kind == "attached" and entry.name.schema.partition(".")[0] in words:
            yield entry


def _readable(
    seen: Iterable[Entry], entries: Mapping[TableName, Entry], copies: Mapping[TableName, tuple[str, str]]
) -> Iterable[ShippedTable]:
    """Yield the readable tables. Unreadable tables are skipped: a query of one of them fails in planning."""
    for entry in seen:
        if entry.kind == "attached" and not entry.restricted:
            if entry.name in copies:
                yield _files(ShippedTable(entry.name, entry.schema), *copies[entry.name])
            continue
        try:
            yield _shipped(entry, entries)
        except FlightLLMError:
            continue


def _shipped(entry: Entry, entries: Mapping[TableName, Entry]) -> ShippedTable:
    stored = entry.stored.schema if entry.stored is not None else None
    plain = ShippedTable(entry.name, entry.schema, stored=stored, restricted=entry.restricted)
    match entry.kind:
        case "view":
            return ShippedTable(entry.name, entry.schema, query=view_text(entry, entries), columns=entry.columns)
        case "managed" if entry.rows is not None and entry.rows.files:
            return _files(plain, f"{entry.rows.folder}/", Path(entry.rows.files[0].name).suffix)
        case "file" | "external" if entry.source is not None:
            return _files(plain, entry.source.location, ".parquet")
        case "file" if entry.path is not None:
            path = entry.path.absolute()
            return _files(plain, f"{path}/" if path.is_dir() else str(path), file_suffix(path))
        case "file" | "external":
            if not entry.location or not entry.format:
                raise InvalidInputError(f"the table {entry.name.display!r} has no files and no address")
            return replace(_files(plain, entry.location, entry.format), csv=entry.csv)
    return plain


def _files(table: ShippedTable, location: str, suffix: str) -> ShippedTable:
    return ShippedTable(table.name, table.schema, location, suffix, table.stored, restricted=table.restricted)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
