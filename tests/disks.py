"""A disk that is quickly full."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a file system of `size` bytes at `folder`; skip the test where that is not allowed."""
    folder.mkdir()
    command = shutil.which("mount")
    mount = [command or "mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if command is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run([shutil.which("umount") or "umount", "--lazy", str(folder)], check=True)
