"""Files that are whole after any crash: written beside, brought to disk, renamed."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> None:
    """Make a folder, where there is none, that no other user of this machine can read."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Put `content` in place of a file, or leave the file as it was; once this returns, it is on disk."""
    beside = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        beside.write_bytes(content)
        sync(beside)
        beside.replace(path)
    except OSError:
        with suppress(OSError):  # what went wrong first says more
            beside.unlink(missing_ok=True)
        raise
    sync(path.parent)
