"""The lock of a folder: one process at a time, however the last one ended, and whoever outlives it."""

import subprocess
import sys
from pathlib import Path

import pytest

from flightllm.errors import ConfigError
from flightllm.storage.lock import FolderLock

HOLDER = """
import os, signal, sys, time
from pathlib import Path
from flightllm.storage.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_held_until_its_process_ends(tmp_path: Path) -> None:
    """Another process is refused until the holder is killed; a process that the holder forked does not hold it on."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with pytest.raises(ConfigError, match="another process uses the folder"):
            FolderLock(tmp_path)
        holder.kill()
        holder.wait()
        assert Path(f"/proc/{child}").exists() or sys.platform != "linux"
        FolderLock(tmp_path).close()
        subprocess.run(["kill", "-9", str(child)], check=True)  # noqa: S607


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    """A folder that cannot be made is a mistake in the configuration, and named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/tables cannot be used for tables: .*data_folder"):
        FolderLock(tmp_path / "file" / "tables")
