"""The files with the ending `.made`: each tells that the data beside it existed, also if that data is lost."""

import os
from dataclasses import dataclass
from pathlib import Path

from flightllm.common.atomic_files import sync

_TABLES = b"""This data folder has had tables: they are in the folder `tables`.
While this file exists, no server starts without the list of tables in that folder. If the folder is missing or empty,
mount its disk again, or restore the data folder from a backup. To begin without tables, delete this file.
"""


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of some data: its path, and the text for a person who opens it."""

    path: Path
    text: bytes

    def exists(self) -> bool:
        """Return whether the mark tells that the data existed; a broken link is a mark, too."""
        return os.path.lexists(self.path)

    def write(self) -> None:
        """Write the mark. Call this after the data is on disk: the mark without the data stops each start.

        Raises:
            OSError: the mark cannot be written.
        """
        if not self.exists():
            self.path.write_bytes(self.text)
            sync(self.path.parent)


def mark_of(folder: Path) -> Mark:
    """Return the mark of a folder of tables; its data is the list of tables."""
    return Mark(folder.with_name(f"{folder.name}.made"), _TABLES)
