"""Convert a GGUF file, the format of Ollama and llama.cpp, to a folder that transformers and vLLM load."""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from flightllm.errors import ConfigError, MissingExtraError

SUFFIX = ".gguf"
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_PACKAGES = ("gguf", "accelerate", "transformers")
_LONGEST_NAME = 60
_MAGIC = b"GGUF"
"""The first bytes of every GGUF file."""
_HEAD_BYTES = 64 << 20
"""A bound on the length of a file's header: a vocabulary of 260,000 tokens takes 10 MiB."""


def is_gguf(model: str) -> bool:
    """Return whether a model's name is that of a GGUF file. The file can be missing."""
    return model.lower().endswith(SUFFIX)


def converted_folder(file: Path, section: str = "engine") -> Path:
    """Return the folder converted from a GGUF file. The first call converts the file; later calls find the folder.

    Quantized weights become bfloat16, so the folder is up to four times as large as the file. Weights of 16 or 32 bits
    stay as they are. The folders are in `models` of `FLIGHTLLM_HOME`, or of the system's folder for application data.
    Users can delete the folders at any time.

    Raises:
        ConfigError: there is no such file, or it cannot be converted.
        MissingExtraError: the extra `local` is not installed.
    """
    from flightllm.config import default_data_folder

    check_gguf(file, section)
    state = file.stat()
    name = re.sub(r"[^\w.-]+", "_", file.stem)[:_LONGEST_NAME]
    folder = default_data_folder() / "models" / f"{name}-{state.st_size:x}-{state.st_mtime_ns:x}"
    if not (folder / "config.json").is_file():
        _convert(file, folder, section)
    return folder


def has_chat_template(file: Path) -> bool:
    """Return whether a GGUF file has a chat template, by the header, which precedes the weights.

    A file is read once, and again after a change.
    """
    state = file.stat()
    return _names_chat_template(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _names_chat_template(file: Path, modified: int, size: int) -> bool:
    del modified, size
    with file.open("rb") as content:
        return b"tokenizer.chat_template" in content.read(_HEAD_BYTES)


def check_gguf(file: Path, section: str = "engine") -> None:
    """Check that a whole GGUF file exists, by its name and its first bytes.

    Raises:
        ConfigError: the file is missing, is one part of several, cannot be read, or is not a GGUF file.
    """
    if not file.is_file():
        raise ConfigError(f"[{section}] model: there is no file {str(file)!r}")
    if _PART.search(file.stem):
        raise ConfigError(
            f"[{section}] model: {str(file)!r} is one of several parts of a GGUF file;"
            " join them with llama.cpp's `llama-gguf-split --merge`, then name the whole file"
        )
    try:
        with file.open("rb") as content:
            magic = content.read(len(_MAGIC))
    except OSError as exc:
        raise ConfigError(f"[{section}] model: {str(file)!r} cannot be read: {exc.strerror}") from exc
    if magic != _MAGIC:
        raise ConfigError(
            f"[{section}] model: {str(file)!r} is not a GGUF file: it does not begin with {_MAGIC.decode()!r};"
            " download it again, or name another file"
        )


def _convert(file: Path, folder: Path, section: str) -> None:
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise MissingExtraError(f"the model {str(file)!r}, without {' and '.join(missing)},", "local")
    log = structlog.get_logger()
    log.info("converting a GGUF file", model=str(file), folder=str(folder))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=".part-", ignore_cleanup_errors=True) as aside:
            _write(file, Path(aside))
            _move(Path(aside), folder)
    except Exception as exc:  # transformers raises many types: an unknown architecture, a damaged file, a full disk
        raise ConfigError(
            f"[{section}] model: {str(file)!r} cannot be converted from GGUF: {exc!r}; if the file is"
            " incomplete, download it again"
        ) from exc
    log.info("converted a GGUF file", folder=str(folder))


def _move(made: Path, folder: Path) -> None:
    """Rename a finished folder to its final name, unless another process finished the same folder first."""
    made.chmod(0o755)
    try:
        made.rename(folder)
    except OSError:
        if not (folder / "config.json").is_file():
            raise


def _write(file: Path, folder: Path) -> None:
    """Write a model folder from a GGUF file, with dequantized weights."""
    import torch
    import transformers

    hub: Any = transformers.utils.logging
    hub.disable_progress_bar()
    model_class: Any = transformers.AutoModelForCausalLM
    tokenizer_class: Any = transformers.AutoTokenizer
    config_class: Any = transformers.GgufConfig
    place, name = str(file.parent), file.name
    tokenizer = tokenizer_class.from_pretrained(place, gguf_file=name)
    model = model_class.from_pretrained(
        place, gguf_file=name, dtype=getattr(torch, _dtype(file)), quantization_config=config_class(dequantize=True)
    )
    model.hf_quantizer = None  # otherwise transformers saves a quantized model
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    _drop_unknown_tokens(folder / "tokenizer.json", model.config.vocab_size)


def _drop_unknown_tokens(file: Path, vocabulary: int) -> None:
    """Remove the tokens for which the model has no embedding.

    transformers adds GPT-2's `<|endoftext|>` to each vocabulary of that kind, even if the model has no such token.
    """
    tokenizer = json.loads(file.read_text("utf-8"))
    tokenizer["added_tokens"] = [one for one in tokenizer["added_tokens"] if one["id"] < vocabulary]
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")


def _dtype(file: Path) -> str:
    """Return the data type for a file's weights: that of its largest tensor, or bfloat16 where that is quantized."""
    from gguf import GGUFReader

    largest = max(GGUFReader(os.fspath(file)).tensors, key=lambda tensor: int(tensor.n_elements))
    return {"F32": "float32", "F16": "float16"}.get(largest.tensor_type.name, "bfloat16")
