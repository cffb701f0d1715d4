"""Crash-safe file writes: write to a temporary file beside the target, sync it to disk, rename it.

Also the renames that set files aside: they never replace a file.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from shutil import copymode
from typing import IO
from uuid import uuid4


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Make a folder that no other user of this machine can read, unless it exists."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content by `content`, or leave the file unchanged; on return, the content is on disk."""
    beside = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        beside.write_bytes(content)
        sync(beside)
        beside.replace(path)
    except OSError:
        with suppress(OSError):  # the first error is the one to report
            beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file that replaces the one at `path` at the end; after an error, the old file is as it was.

    The new file has the old one's permissions, and is not synced to disk. A device such as `/dev/stdout` is opened
    itself.

    Raises:
        OSError: the file cannot be written.
    """
    place = path.resolve()
    if place.exists() and not place.is_file():
        with place.open("wb") as file:
            yield file
        return
    beside = place.with_name(f".{place.name}-{uuid4().hex}")
    try:
        with beside.open("xb") as file:
            yield file
        if place.exists():
            copymode(place, beside)
        beside.replace(place)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


JOURNALS = ("-wal", "-shm", "-journal")
"""The ends of the names of the files that SQLite has beside a database."""


def set_database_aside(path: Path) -> Path | None:
    """Rename an SQLite database and its journals to `NAME.damaged-1`, or to the first number that is free.

    Return the new name of the database, or None if only journals or no files were there.

    Raises:
        OSError: a file cannot be renamed.
    """
    free = (path.with_name(f"{path.name}.damaged-{number}") for number in count(1))
    aside = next(one for one in free if not any(path.parent.glob(f"{one.name}*")))
    found = [end for end in ("", *JOURNALS) if _renamed(Path(f"{path}{end}"), Path(f"{aside}{end}"))]
    return aside if "" in found else None


def _renamed(path: Path, new: Path) -> bool:
    try:
        path.replace(new)
    except FileNotFoundError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class SetAside:
    """Files and folders that were moved to `folder`, and those that stayed, such as a mounted disk."""

    folder: Path
    moved: Sequence[Path]
    stayed: Sequence[Path]


def move_aside(base: Path, names: Sequence[Path], parent: Path) -> SetAside:
    """Move files and folders of `base` to the first free folder of `parent/1`, `parent/2` and so on.

    `names` are relative to `base`, and stay the same below the new folder.

    Raises:
        OSError: the new folder cannot be made.
    """
    make_private(parent)
    number = max((int(path.name) for path in parent.iterdir() if path.name.isdecimal()), default=0) + 1
    folder = parent / str(number)
    folder.mkdir(mode=0o700)
    moved, stayed = list[Path](), list[Path]()
    for name in names:
        try:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).rename(folder / name)
            moved.append(folder / name)
        except OSError:
            stayed.append(base / name)
    with suppress(OSError):
        for one in {*(path.parent for path in moved), folder, parent, base}:
            sync(one)
    return SetAside(folder, moved, stayed)
