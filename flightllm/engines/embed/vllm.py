"""Embeddings with vLLM in this process; the embedding model runs beside the model that answers prompts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flightllm.engines.embed.base import Role, RolePrefixes, Vectors
from flightllm.engines.embed.models import embedding_folder
from flightllm.engines.options import read_options
from flightllm.engines.vllm.engine import on_cpu, prepare_environment
from flightllm.errors import ConfigError, EngineError, EngineUnavailableError, MissingExtraError
from flightllm.llm.files import model_digest

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class VllmEmbeddingOptions(RolePrefixes):
    """The most common engine arguments; `engine_args` holds any other engine arguments.

    `max_model_len` 0 is the model's own length. `gpu_memory_utilization` is low, because embedding models are small and
    run beside a model that answers prompts. On a CPU it is a share of the main memory.
    """

    max_model_len: int = 0
    gpu_memory_utilization: float = 0.1
    dtype: str = "auto"
    engine_args: Mapping[str, object] = field(default_factory=dict)


class VllmEmbedder:
    """An embedder with vLLM's pooling runner, which cuts texts that are too long for the model."""

    def __init__(self, model: str, options: VllmEmbeddingOptions) -> None:
        prepare_environment()
        try:
            from vllm import LLM
        except ImportError as error:
            raise MissingExtraError("the embedding engine 'vllm'", "gpu") from error
        folder = embedding_folder(model)
        arguments: dict[str, Any] = {"runner": "pooling", "dtype": options.dtype, "enforce_eager": on_cpu()}
        arguments["gpu_memory_utilization"] = options.gpu_memory_utilization
        if options.max_model_len:
            arguments["max_model_len"] = options.max_model_len
        self.name = f"vllm ({model})"
        try:
            self._llm: Any = LLM(str(folder), **(arguments | dict(options.engine_args)))
        except TypeError as error:
            raise ConfigError(f"[embedding] engine_args: {error}") from error
        except Exception as error:  # the start can fail in many ways: memory, a bad argument, no embedding model
            raise EngineUnavailableError(f"the embedding engine {self.name} did not start: {error}") from error
        self._options = options
        self._lock = threading.Lock()
        self._tokenizer: Any = self._llm.get_tokenizer()
        found = self._llm.llm_engine.model_config
        self._longest = int(found.max_model_len)
        self.dimensions = int(found.embedding_size)
        prefixes = f"{options.query_prefix!r} {options.document_prefix!r}"
        self.revision = f"vllm-1 {model_digest(folder)} {found.dtype} {prefixes}"

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; vLLM batches them.

        Raises:
            EngineUnavailableError: the engine died.
            EngineError: the engine rejects a text.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        sent = [self._options.prefix(role) + text for text in texts]
        try:
            with self._lock:
                ids = self._tokenizer(sent, truncation=True, max_length=self._longest).input_ids
                answers = self._llm.embed([{"prompt_token_ids": one} for one in ids], use_tqdm=False)
        except EngineDeadError as error:
            raise EngineUnavailableError(f"the embedding engine {self.name} died; see its log") from error
        except Exception as error:  # vLLM raises many types of errors
            raise EngineError(
                f"the embedding engine {self.name} rejects the texts: {str(error) or type(error).__name__}"
            ) from error
        return np.array([answer.outputs.embedding for answer in answers], np.float32)

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, without special tokens."""
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    def close(self) -> None:
        """Stop vLLM's process. Idempotent."""
        if self._llm is not None:
            self._llm.llm_engine.engine_core.shutdown(timeout=_STOP_SECONDS)
            self._llm = None


def create(config: EmbeddingConfig) -> VllmEmbedder:
    """Start vLLM on the model that the configuration names."""
    options = read_options(VllmEmbeddingOptions, "vllm", config.options, section="embedding")
    return VllmEmbedder(config.model, options)
