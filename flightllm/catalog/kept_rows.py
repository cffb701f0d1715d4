"""The rows of the file in FROM that a session read last: its price, its columns and its rows take one reading."""

from pathlib import Path

import pyarrow as pa

from flightllm.convert.options import CsvOptions

_MOST_BYTES = 1 << 26
"""Larger rows are read anew each time."""


class KeptRows:
    """One file's rows at most, as long as the file stays as it is. Thread-safe."""

    def __init__(self) -> None:
        self._kept: tuple[Path, CsvOptions, str, pa.Table] | None = None

    def find(self, path: Path, csv: CsvOptions, revision: str) -> pa.Table | None:
        """Return the rows of a file that was read with these options at this revision, if they are kept."""
        kept = self._kept  # another thread can exchange it meanwhile
        return kept[3] if kept is not None and kept[:3] == (path, csv, revision) else None

    def keep(self, path: Path, csv: CsvOptions, revision: str, rows: pa.Table) -> None:
        """Keep the rows of a file in place of those before, or nothing if they are large."""
        self._kept = (path, csv, revision, rows) if rows.nbytes <= _MOST_BYTES else None
