"""`system.data_files`: one row for each file of a stored table, with the state of its bytes."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import pyarrow as pa

from flightllm.common.names import TableName
from flightllm.storage.file_check import FileStatus
from flightllm.storage.rows import StoredFile

_FILES = pa.schema(
    [
        *((name, pa.string()) for name in ("schema", "table", "file")),
        *((name, pa.int64()) for name in ("rows", "bytes")),
        ("sha256", pa.string()),
        ("status", pa.string()),
    ]
)


class FileTable:
    """The data files; `files` returns them as they are now, with their tables and states."""

    schemas: Mapping[str, pa.Schema] = MappingProxyType({"data_files": _FILES})

    def __init__(self, files: Callable[[], Iterable[tuple[TableName, StoredFile, FileStatus]]]) -> None:
        self._files = files

    def snapshot(self, _name: str) -> pa.Table:
        """Return the rows as they are now."""
        rows = [
            {
                "schema": table.schema,
                "table": table.name,
                "file": file.name,
                "rows": file.rows,
                "bytes": file.bytes,
                "sha256": file.sha256 or None,
                "status": status,
            }
            for table, file, status in self._files()
        ]
        return pa.Table.from_pylist(rows, schema=_FILES)
