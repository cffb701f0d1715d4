"""Choose which files of a model's repository to download: weights in one format, and the small files beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

_SMALL = ("*.json", "*.txt", "*.jinja", "*.model", "*.tiktoken", "*.py")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""File formats of weights, the best first."""
_OTHERS = {"original", "metal", "onnx", "openvino", "coreml", "gguf", "tf", "flax"}
"""Names of folders that hold the same model for other programs."""
_MODULE = re.compile(r"\d+_\w+")
"""The folder of an additional module of a sentence-transformers model, such as `2_Dense`."""


def wanted_files(files: Sequence[str]) -> list[str] | str:
    """Return which files of a repository to download, or why the repository is not a model in transformers' format."""
    if "config.json" not in files:
        return _lacks("config.json", files)
    weights = _weights(files, "")
    if not weights:
        return _lacks("weights, as safetensors or pytorch_model.bin,", files)
    parts = {folder for name in files if _MODULE.fullmatch(folder := name.partition("/")[0]) and "/" in name}
    weights += [name for part in sorted(parts) for name in _weights(files, part)]
    small = [name for name in files if _is_small(name)]
    return sorted(small + weights)


def _weights(files: Sequence[str], folder: str) -> list[str]:
    """Return the weight files directly in a folder, in the best format that the folder has."""
    here = [name for name in files if PurePosixPath(name).parent == PurePosixPath(folder)]
    for pattern in _WEIGHTS:
        found = [name for name in here if fnmatchcase(PurePosixPath(name).name, pattern)]
        # Mistral's repositories contain all weights twice: once more for Mistral's own programs.
        transformers = [name for name in found if not PurePosixPath(name).name.startswith("consolidated")]
        if found:
            return transformers or found
    return []


def _is_small(name: str) -> bool:
    path = PurePosixPath(name)
    return not _OTHERS.intersection(path.parts[:-1]) and any(fnmatchcase(path.name, one) for one in _SMALL)


def _lacks(what: str, files: Sequence[str]) -> str:
    gguf = any(name.endswith(".gguf") for name in files)
    return f"it has no {what} at its top" + (
        "; download one of its GGUF files and write model = '…/NAME.gguf'" if gguf else ""
    )
