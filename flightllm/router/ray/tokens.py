"""Compute in this process the tokens of prompts that an engine elsewhere gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flightllm.config import EngineConfig
from flightllm.errors import ConfigError
from flightllm.llm.files import local_folder
from flightllm.llm.gguf_files import is_gguf


class Tokens(Protocol):
    """A model's tokenizer. Thread-safe."""

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each prompt as the model gets it, chat template and special tokens included."""

    def count(self, text: str) -> int:
        """Count the tokens of `text`, without special tokens."""


class _FakeTokens:
    """The tokenizer of the fake engine, whose tokens are pieces of text."""

    def __init__(self, config: EngineConfig) -> None:
        from flightllm.engines.fake.engine import create

        self._engine = create(config)

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        return self._engine.token_ids(prompts)

    def count(self, text: str) -> int:
        return self._engine.count_tokens(text)


def tokens_of(config: EngineConfig) -> Tokens | None:
    """Return the tokenizer of the engine that `config` describes; None if this machine does not have it.

    A hub model is not downloaded for its tokenizer.
    """
    if config.kind == "fake":
        return _FakeTokens(config)
    if config.kind not in {"local", "vllm"}:
        return None
    try:
        from flightllm.llm.tokenizer import PromptEncoder

        if is_gguf(config.model):
            return None  # only a node that runs the model converts it
        folder = local_folder(config.model)
        return None if folder is None else PromptEncoder(folder, reasoning=config.reasoning)
    except (ConfigError, ImportError, OSError):  # only the cluster's nodes have the model or its tokenizer
        return None
