"""Crash-safe file writes: write to a temporary file beside the target, sync it to disk, rename it."""

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
