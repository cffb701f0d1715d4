"""Where the tables of a configuration lie."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file or subfolder that is a table because it lies in a folder: it is left out if it cannot be read."""

    path: Path
    folder: Path
    """The folder that somebody named."""

    def __str__(self) -> str:
        """Return its path."""
        return str(self.path)


TablePlace = Path | str | FolderFile
"""A path, an address in an object store, or a file that nobody named."""
