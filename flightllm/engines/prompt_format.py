"""Choose the prompt format of a configured engine: the configured one, or the one that suits the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flightllm.config.replicas import replica_config
from flightllm.engines.openai.options import read_openai_options
from flightllm.errors import ConfigError
from flightllm.llm.files import local_folder
from flightllm.llm.gguf_files import has_chat_template, is_gguf
from flightllm.llm.prompt_formats import FORMATS, INSTRUCT, PLAIN, PromptFormat

if TYPE_CHECKING:
    from flightllm.config import EngineConfig

AUTO: Final = "auto"
_PIN: Final = "prompt_format.txt"
"""A file in a model's folder that names the prompt format on which the model was trained."""


def format_of(config: EngineConfig) -> PromptFormat:
    """Return the prompt format of a configured model.

    For `auto`, this is the format that the model's folder names, or else the format for instruct models. A model
    without a chat template gets the format with a cue.

    Raises:
        ConfigError: there is no format with the configured name.
    """
    if config.prompt_format != AUTO:
        return _named(config.prompt_format)
    if config.kind == "fake":
        return PLAIN
    if config.kind in {"cluster", "ray"}:
        return _format_of_replicas(config)
    model = str(config.options.get("tokenizer") or config.model)
    if config.kind != "openai" and is_gguf(model) and (file := Path(model).expanduser()).is_file():
        return INSTRUCT if has_chat_template(file) else FORMATS["cued"]  # without converting the file
    folder = _folder(model)
    is_bare = config.kind == "openai" and _takes_texts(config.options)
    if folder is None:
        return FORMATS["cued"] if is_bare else INSTRUCT
    if (folder / _PIN).is_file():
        return _named((folder / _PIN).read_text("utf-8").strip())
    return INSTRUCT if _has_template(folder) and not is_bare else FORMATS["cued"]


def _takes_texts(options: Mapping[str, object]) -> bool:
    """Return whether an endpoint is asked for completions, which apply no chat template."""
    try:
        return read_openai_options(options).completions
    except ConfigError:  # the check or the opening of the engine raises this error
        return False


def _named(name: str) -> PromptFormat:
    if name not in FORMATS:
        raise ConfigError(f"[engine] prompt_format: expected {AUTO} or one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def _format_of_replicas(config: EngineConfig) -> PromptFormat:
    """Return the format of the first replica: all replicas have the same model."""
    shared, listed = config.options.get("replica"), config.options.get("replicas")
    tables = [shared, listed[0] if isinstance(listed, list) and listed else None]
    table = {key: value for one in tables if isinstance(one, Mapping) for key, value in one.items()}
    return format_of(replica_config(config, table, "[engine.replica]"))


def _folder(model: str) -> Path | None:
    """Return a model's folder on this machine; None if the model is elsewhere."""
    if is_gguf(model):  # the name of a model at a llama.cpp server
        return None
    try:
        return local_folder(model)
    except ConfigError:  # the name of a model at an endpoint
        return None


def _has_template(folder: Path) -> bool:
    if any(folder.glob("*chat_template*")):
        return True
    tokenizer = folder / "tokenizer_config.json"
    return not tokenizer.is_file() or '"chat_template"' in tokenizer.read_text("utf-8", "replace")
