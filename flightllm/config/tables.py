"""Where the configured tables are stored."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file or subfolder that is a table because it is in a listed folder; unreadable ones are left out."""

    path: Path
    folder: Path
    """The folder that the user listed."""
    csv: tuple[tuple[str, str], ...] = ()
    """The options of CSV files, by name."""

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file, folder or address with options for CSV or JSON files."""

    path: Path | str
    csv: tuple[tuple[str, str], ...]
    """The options, by name."""

    def __str__(self) -> str:
        """Return the path."""
        return str(self.path)


TablePlace = Path | str | FolderFile | CsvFile
"""A path, an address in an object store, or a file that has options or is of a listed folder."""
