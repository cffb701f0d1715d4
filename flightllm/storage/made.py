"""The file `tables.made` beside the folder of tables. It tells that there were tables, also if the folder is lost."""

import os
from pathlib import Path

from flightllm.common.atomic_files import sync

_WRITTEN = b"""This data folder has had tables: they are in the folder `tables`.
While this file exists, no server starts without the list of tables in that folder. If the folder is missing or empty,
mount its disk again, or restore the data folder from a backup. To begin without tables, delete this file.
"""


def mark_of(folder: Path) -> Path:
    """Return the path of the mark of a folder of tables."""
    return folder.with_name(f"{folder.name}.made")


def is_made(folder: Path) -> bool:
    """Return whether the mark tells that the folder of tables had tables."""
    return os.path.lexists(mark_of(folder))


def mark(folder: Path) -> None:
    """Write the mark. Call this after the first list of tables is on disk: the mark without a list stops each start.

    Raises:
        OSError: the mark cannot be written.
    """
    if not is_made(folder):
        mark_of(folder).write_bytes(_WRITTEN)
        sync(folder.parent)
