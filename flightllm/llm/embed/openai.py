"""Embeddings of any OpenAI-compatible endpoint: a hosted API, `vllm serve`, Ollama and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import structlog

from flightllm.common.text import excerpt
from flightllm.errors import AnswerError, EngineError, EngineUnavailableError, MissingExtraError
from flightllm.llm.embed.base import Prefixes, Role, Vectors
from flightllm.llm.openai.answers import MalformedError, read_vectors
from flightllm.llm.openai.options import RESPONSE_BYTES, OpenAIOptions
from flightllm.llm.options import read_options
from flightllm.llm.secrets import shown_address

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    import httpx2
    import openai

    from flightllm.llm.http_bodies import ENCODING, BodyError, bound, redirected
    from flightllm.llm.openai.faults import Kind, hidden, line_to_change, unreachable
except ImportError as error:
    raise MissingExtraError("the embedding engine 'openai'", "openai") from error

_CHARS_PER_TOKEN = 4
_PROBE_SECONDS = 5.0
_log = structlog.get_logger(__name__)


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
    response_bytes: int = RESPONSE_BYTES

    def __post_init__(self) -> None:
        if self.batch < 1 or self.dimensions < 0 or self.max_chars < 0:
            raise ValueError("batch, dimensions, max_chars: must be positive")
        if self.timeout <= 0 or self.max_retries < 0:
            raise ValueError("timeout, max_retries: must be positive")
        if self.response_bytes < 1:
            raise ValueError("response_bytes: must be positive")

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
            default_headers={"Accept-Encoding": ENCODING},
            http_client=openai.DefaultHttpxClient(
                event_hooks={"response": [bound(options.response_bytes)]}, timeout=options.timeout
            ),
        )
        self._dimensions = options.dimensions
        self.name = f"openai ({model} at {shown_address(options.base_url)})"
        self.revision = f"openai-1 {options.base_url} {model} {options.dimensions} {_told(options)}"

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors, found by embedding a text where it is not configured."""
        if not self._dimensions:
            self._dimensions = self._length()
        return self._dimensions

    def _length(self) -> int:
        return int(self._post(["length"]).shape[1])

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text, some texts to an HTTP request.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached.
            AnswerError: it refuses these texts, or its answer cannot be read.
            EngineError: it refuses all.
        """
        prefix, most = self._options.prefix(role), self._options.max_chars or None
        told = [prefix + text[:most] or " " for text in texts]  # endpoints refuse an empty text
        parts = [
            self._checked(self._post(told[start : start + self._options.batch]))
            for start in range(0, len(told), self._options.batch)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self._dimensions), np.float32)

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens at four characters each: the endpoint's tokenizer is not known."""
        return -(-len(text) // _CHARS_PER_TOKEN)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def _checked(self, vectors: Vectors) -> Vectors:
        """Return vectors that are as long as all others of the model.

        Raises:
            AnswerError: they are not.
        """
        rows, length = vectors.shape
        if length != self._dimensions:
            # One answer alone is not trusted with what all others are measured by.
            self._dimensions = length if rows > 1 and not self._dimensions else self._length()
        if length != self._dimensions:
            raise self._failed(f"gave a vector of {length} numbers, not {self._dimensions}")
        return vectors

    def _post(self, texts: list[str]) -> Vectors:
        dimensions = self._options.dimensions or openai.omit
        try:
            raw = self._client.embeddings.with_raw_response.create(
                model=self._model, input=texts, dimensions=dimensions, extra_body=self._options.extra_body
            )
            return read_vectors(raw.http_response.content, len(texts), self._options.dimensions)
        except (MalformedError, BodyError) as error:
            raise self._failed(f"gave an answer that cannot be read: {error}") from error
        except openai.APIConnectionError as error:
            raise self._broken(error) from error
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise self._failed(
                f"refuses: {excerpt(error.message)} (texts too long for the model are cut with "
                "[embedding] max_chars, or by vLLM with extra_body = {truncate_prompt_tokens = -1})"
            ) from error
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            raise EngineError(f"the embedding engine {self.name} refuses: {excerpt(error.message)}") from error
        except openai.APIError as error:
            raise self._failed(f"failed: {excerpt(error.message)}", shared=True) from error
        except UnicodeEncodeError as error:
            raise self._failed("cannot be sent a text with lone surrogates, which UTF-8 does not have") from error
        except Exception as error:
            # A response can break the client's packages in ways of their own: a charset or an address that is none.
            _log.warning("response not understood", engine=self.name, error_type=type(error).__name__)
            raise self._failed(f"gave a response that cannot be read ({type(error).__name__})") from error

    def _failed(self, what: str, *, shared: bool = False) -> AnswerError:
        return AnswerError(f"the embedding engine {self.name} {what}", shared=shared)

    def _broken(self, error: openai.APIConnectionError) -> EngineError:
        """Return what a connection that broke means: the endpoint is gone, or it breaks at these texts alone."""
        cause = error.__cause__
        if isinstance(cause, httpx2.DecodingError | httpx2.TooManyRedirects):
            return self._failed(f"gave an answer that cannot be read: {excerpt(str(cause))}")
        gone = EngineUnavailableError(
            f"the embedding engine {self.name} cannot be reached: {hidden(unreachable(error), self._client.api_key)}"
            f"{line_to_change(Kind.GONE, section='embedding')}"
        )
        no_connection = httpx2.TimeoutException | httpx2.ConnectError | httpx2.ProxyError
        if isinstance(cause, no_connection) and not redirected(cause, self._options.base_url):
            return gone
        try:
            self._client.with_options(max_retries=0, timeout=_PROBE_SECONDS).with_raw_response.models.list()
        except openai.APIConnectionError:
            return gone
        except Exception:  # noqa: BLE001 - it answers, whatever it says
            _log.debug("endpoint answers a probe", engine=self.name)
        return self._failed(f"broke off its answer: {excerpt(str(cause or error))}")


def _told(options: EmbeddingOptions) -> str:
    """Return what else decides on the text that is embedded."""
    return f"{options.query_prefix!r} {options.document_prefix!r} {options.max_chars} {dict(options.extra_body)!r}"


def create(config: EmbeddingConfig) -> OpenAIEmbedder:
    """Make the embedder that the configuration describes; nothing is sent yet."""
    return OpenAIEmbedder(config.model, read_options(EmbeddingOptions, "openai", config.options, section="embedding"))
