"""The manifest of an index on disk: one JSON file that describes the index and names its other files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from flightllm.errors import InvalidInputError
from flightllm.storage.sealed import sealed, unsealed
from flightllm.vector.options import IndexOptions

VERSION = 1


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """The description of an index.

    `rows` counts the index's rows, and `trained` its rows when it was built. `nulls` and `failed` count the table's
    rows that it leaves out, because they are NULL or because the embedding model rejects them. `source` is the table's
    revision. `created` is a time in ISO 8601. `files` has the size and digest of each file, by its path in the folder
    `generation`.
    """

    name: str
    table: tuple[str, str]
    """The table's schema and name."""
    column: str
    options: IndexOptions
    model: str
    revision: str
    dimensions: int
    rows: int
    trained: int
    nulls: int
    source: str
    created: str
    generation: str
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    failed: int = 0

    @property
    def left_out(self) -> int:
        """Return how many of the table's rows the index lacks."""
        return self.nulls + self.failed

    def as_json(self) -> str:
        """Return the manifest as a JSON document with its own checksum."""
        values = {"version": VERSION, **asdict(self)}
        return sealed(json.dumps(values, indent=2))

    @classmethod
    def of_json(cls, text: str) -> IndexManifest:
        """Read a document that `as_json` returned.

        Raises:
            InvalidInputError: the text is not a manifest, or has another version.
        """
        try:
            values = {"failed": 0, **unsealed(text, {"version", *(one.name for one in fields(cls))} - {"failed"})}
            if values.pop("version") != VERSION:
                raise InvalidInputError("it was written by another version of FlightLLM")
            options = {**values["options"], "columns": tuple(values["options"]["columns"])}
            files = {path: (int(size), str(digest)) for path, (size, digest) in values["files"].items()}
            schema, table = map(str, values["table"])
            kept = {one.name: values[one.name] for one in fields(cls)}
            return cls(**{**kept, "table": (schema, table), "options": IndexOptions(**options), "files": files})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError("its manifest cannot be read") from error
