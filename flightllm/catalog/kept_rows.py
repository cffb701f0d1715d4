"""Cache for the rows of the latest file in a session's FROM, so that price, columns and rows need one read."""

from pathlib import Path

import pyarrow as pa

from flightllm.file_formats.options import CsvOptions

_MOST_BYTES = 1 << 26
"""Files with more bytes of rows are not cached, but read again each time."""


class KeptRows:
    """A cache of at most one file's rows, valid until the file changes. Thread-safe."""

    def __init__(self) -> None:
        self._kept: tuple[Path, CsvOptions, str, pa.Table] | None = None

    def find(self, path: Path, csv: CsvOptions, revision: str) -> pa.Table | None:
        """Return the cached rows of a file that was read with these options at this revision, or None."""
        kept = self._kept  # another thread can replace it meanwhile
        return kept[3] if kept is not None and kept[:3] == (path, csv, revision) else None

    def keep(self, path: Path, csv: CsvOptions, revision: str, rows: pa.Table) -> None:
        """Cache the rows of a file in place of the earlier file's; large rows are not cached."""
        self._kept = (path, csv, revision, rows) if rows.nbytes <= _MOST_BYTES else None
