"""Installs each peer in a virtual environment of its own, in the cache folder: its requirements conflict with ours."""

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.models import cache_folder

REQUIREMENTS: Final[Mapping[str, str]] = {"lotus": "lotus-ai==1.2.4", "daft": "daft[openai]==0.7.26"}


def peer_python(peer: str) -> Path:
    """Return the Python interpreter of a peer's environment.

    The first call creates the environment, which takes minutes, and gigabytes for LOTUS.

    Raises:
        RuntimeError: the peer cannot be installed; the message quotes the last line of the failed command.
    """
    folder = cache_folder().parent / "peers" / REQUIREMENTS[peer]
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (folder / "done").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "--quiet", REQUIREMENTS[peer]]
    for command in ([sys.executable, "-m", "venv", str(folder)], install):
        _run(command, REQUIREMENTS[peer])
    (folder / "done").touch()
    return python


def _run(command: Sequence[str], requirement: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RuntimeError(f"{requirement} cannot be installed: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise RuntimeError(f"{requirement} cannot be installed: {said}")
