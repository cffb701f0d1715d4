"""Embeddings of any OpenAI-compatible endpoint: a hosted API, `vllm serve`, Ollama and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from flightllm.errors import EngineError, EngineUnavailableError, MissingExtraError
from flightllm.llm.embed.base import Prefixes, Role, Vectors
from flightllm.llm.openai_options import OpenAIOptions
from flightllm.llm.options import read_options
from flightllm.llm.secrets import shown_address

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    import openai
except ImportError as error:
    raise MissingExtraError("the embedding engine 'openai'", "openai") from error

_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class EmbeddingOptions(Prefixes):
    """Where the endpoint is; `dimensions` 0 leaves the vectors as long as the model makes them.

    Endpoints refuse texts longer than the model reads: `max_chars` cuts them (0 does not), and `extra_body` adds keys
    to each request, for vLLM `{truncate_prompt_tokens = -1}`.
    """

    base_url: str = OpenAIOptions().base_url
    api_key_env: str = OpenAIOptions().api_key_env
    api_key_file: str = ""
    dimensions: int = 0
    batch: int = 128
    timeout: float = 120.0
    max_retries: int = 5
    max_chars: int = 0
    extra_body: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch < 1 or self.dimensions < 0 or self.max_chars < 0:
            raise ValueError("batch, dimensions, max_chars: must be positive")
        if self.timeout <= 0 or self.max_retries < 0:
            raise ValueError("timeout, max_retries: must be positive")

    def read_key(self) -> str:
        """Return the key; see `OpenAIOptions.read_key`."""
        return OpenAIOptions(self.base_url, self.api_key_env, self.api_key_file).read_key()


class OpenAIEmbedder:
    """One endpoint and model."""

    reconnects = True
    """Nothing of it dies with the endpoint."""

    def __init__(self, model: str, options: EmbeddingOptions) -> None:
        self._model = model
        self._options = options
        self._client = openai.OpenAI(
            base_url=options.base_url,
            api_key=options.read_key(),
            timeout=options.timeout,
            max_retries=options.max_retries,
        )
        self._dimensions = options.dimensions
        self.name = f"openai ({model} at {shown_address(options.base_url)})"
        self.revision = f"openai-1 {options.base_url} {model} {options.dimensions} {_told(options)}"

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors, found by embedding a text where it is not configured."""
        if not self._dimensions:
            self._dimensions = int(self.embed(["length"]).shape[1])
        return self._dimensions

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text, some texts to an HTTP request.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached.
            EngineError: it refuses, or answers something else.
        """
        prefix, most = self._options.prefix(role), self._options.max_chars or None
        told = [prefix + text[:most] or " " for text in texts]  # endpoints refuse an empty text
        parts = [
            self._post(told[start : start + self._options.batch]) for start in range(0, len(told), self._options.batch)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self._dimensions), np.float32)

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens at four characters each: the endpoint's tokenizer is not known."""
        return -(-len(text) // _CHARS_PER_TOKEN)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def _post(self, texts: list[str]) -> Vectors:
        dimensions = self._options.dimensions or openai.omit
        try:
            answer = self._client.embeddings.create(
                model=self._model, input=texts, dimensions=dimensions, extra_body=self._options.extra_body
            )
        except openai.APIConnectionError as error:
            raise EngineUnavailableError(f"the embedding engine {self.name} cannot be reached: {error}") from error
        except openai.BadRequestError as error:
            raise EngineError(
                f"the embedding engine {self.name} refuses: {error.message} (texts too long for the model are cut with "
                "[embedding] max_chars, or by vLLM with extra_body = {truncate_prompt_tokens = -1})"
            ) from error
        except openai.APIError as error:
            raise EngineError(f"the embedding engine {self.name} refuses: {error.message}") from error
        if len(answer.data) != len(texts):
            raise EngineError(
                f"the embedding engine {self.name} gave {len(answer.data)} vectors for {len(texts)} texts"
            )
        rows = sorted(answer.data, key=lambda one: one.index)
        return np.array([row.embedding for row in rows], np.float32)


def _told(options: EmbeddingOptions) -> str:
    """Return what else decides on the text that is embedded."""
    return f"{options.query_prefix!r} {options.document_prefix!r} {options.max_chars} {dict(options.extra_body)!r}"


def create(config: EmbeddingConfig) -> OpenAIEmbedder:
    """Make the embedder that the configuration describes; nothing is sent yet."""
    return OpenAIEmbedder(config.model, read_options(EmbeddingOptions, "openai", config.options, section="embedding"))
