"""Each peer in a virtual environment of its own, kept in the cache folder: their needs do not agree with ours."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flightllm.demo.model import cache_folder

REQUIREMENTS: Final[Mapping[str, str]] = {"lotus": "lotus-ai==1.2.4", "daft": "daft[openai]==0.7.26"}


def peer_python(peer: str) -> Path:
    """Return the interpreter of a peer's environment, made on first use (minutes, LOTUS takes gigabytes).

    Raises:
        RuntimeError: it cannot be installed here; quotes pip's last line.
    """
    folder = cache_folder().parent / "peers" / REQUIREMENTS[peer]
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (folder / "done").exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", REQUIREMENTS[peer]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{REQUIREMENTS[peer]} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    (folder / "done").touch()
    return python
