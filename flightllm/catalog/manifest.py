"""The part of the catalog that outlives the server: schemas, tables, views and their owners, in one JSON document."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flightllm.catalog.entries import Entry, StoredRows
from flightllm.common.names import TableName
from flightllm.errors import InvalidInputError
from flightllm.file_formats.options import NOTHING_SAID, CsvOptions
from flightllm.sql.keys import NO_KEYS, TableKeys
from flightllm.storage.damage import VERSION, parsed
from flightllm.storage.rows import StoredFile
from flightllm.storage.sealed import sealed

KEPT = ("managed", "external", "view", "ai_view")
"""The kinds of entries that outlive the server; others come from its configuration."""


@dataclass(frozen=True, slots=True)
class CatalogManifest:
    """Schemas and entries without providers. `revision` changes with each change."""

    schemas: tuple[str, ...]
    entries: tuple[Entry, ...]
    revision: str
    replaced: frozenset[str] = frozenset()
    """Data files that earlier manifests name and this one does not. A start can remove them without doubt."""
    marks: tuple[str, ...] = ()
    """The marks of the latest statements that can run twice and have changed a table; see `marked`."""

    def as_json(self, written: Sequence[str]) -> str:
        """Return the document; `written` has each entry as `entry_json` returns it."""
        known: dict[str, object] = {"revision": self.revision, "schemas": self.schemas}
        known["replaced"] = sorted(self.replaced)
        if self.marks:
            known["marks"] = self.marks
        head = json.dumps({"version": VERSION, **known})
        entries = ",\n".join(written)
        return sealed(f'{head[:-1]}, "entries": [\n{entries}\n]}}\n')

    @classmethod
    def of_json(cls, text: str) -> "CatalogManifest":
        """Read a document that `as_json` returned.

        Raises:
            NewerVersionError: a newer version of FlightLLM wrote it.
            InvalidInputError: the text is not a manifest.
        """
        try:
            return cls._of_document(parsed(text))
        except InvalidInputError:
            raise
        except Exception as error:  # of JSON, base64 or Arrow: what they raise for damaged bytes has no common base
            raise InvalidInputError("it is cut short, or its bytes have changed on the disk") from error

    @classmethod
    def _of_document(cls, document: Mapping[str, Any]) -> "CatalogManifest":
        schemas = tuple(map(str, document["schemas"]))
        entries = tuple(_read(entry) for entry in document["entries"])
        replaced, marks = (map(str, document.get(name, ())) for name in ("replaced", "marks"))
        return cls(schemas, entries, str(document["revision"]), frozenset(replaced), tuple(marks))

    @property
    def files(self) -> set[str]:
        """Return the names of all data files."""
        return {file.name for entry in self.entries if entry.rows is not None for file in entry.rows.files}


def entry_json(entry: Entry) -> str:
    """Return an entry of the document as one line of JSON."""
    written: dict[str, object] = {
        "kind": entry.kind,
        "schema": entry.name.schema,
        "name": entry.name.name,
        "owner": entry.owner,
    }
    if entry.is_view:
        written |= {"query": entry.query, "column_names": entry.columns, "passed": entry.passed}
    if entry.kind != "view":  # a view's columns follow from its tables
        written["columns"] = base64.b64encode(entry.schema.serialize().to_pybytes()).decode()
    if entry.rows is not None:
        rows = entry.rows
        files: Sequence[Mapping[str, object]] = [asdict(file) for file in rows.files]
        written |= {"identity": rows.identity, "revision": rows.revision, "definition": rows.definition, "files": files}
    if entry.keys:
        written["keys"] = entry.keys.as_json()
    if entry.kind == "external":
        written |= {"location": entry.location, "format": entry.format}
    if entry.csv != NOTHING_SAID:
        written["csv"] = entry.csv.as_json()
    return json.dumps(written)


def _read_file(written: Mapping[str, Any]) -> StoredFile:
    digest = str(written.get("sha256", ""))  # earlier versions wrote none
    return StoredFile(str(written["name"]), int(written["bytes"]), int(written["rows"]), digest)


def _read(written: Mapping[str, Any]) -> Entry:
    schema = pa.schema([])
    if "columns" in written:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written["columns"], validate=True)))
    rows = None
    if written["kind"] == "managed":
        files = tuple(map(_read_file, written["files"]))
        if any(Path(file.name).name != file.name for file in files):
            raise InvalidInputError("it names a file outside its folder")
        rows = StoredRows(files, str(written["identity"]), str(written["revision"]), str(written["definition"]))
    elif written["kind"] not in KEPT:
        raise InvalidInputError(f"it has an entry of an unknown kind, {written['kind']!r}")
    return Entry(
        TableName(str(written["schema"]), str(written["name"])),
        written["kind"],
        schema,
        None,
        str(written.get("query", "")),
        tuple(map(str, written.get("column_names", ()))),
        owner=str(written["owner"]),
        rows=rows,
        location=str(written.get("location", "")),
        format=str(written.get("format", "")),
        keys=TableKeys.of_json(written["keys"]) if "keys" in written else NO_KEYS,
        csv=CsvOptions.of_json(written.get("csv", {})),
        passed=int(written.get("passed", 0)),  # earlier versions wrote `true` for the first passes
    )
