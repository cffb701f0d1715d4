"""Embeddings from any OpenAI-compatible endpoint, such as a hosted API, `vllm serve` or Ollama."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import structlog

from flightllm.common.text import excerpt
from flightllm.engines.embed.base import Role, RolePrefixes, Vectors
from flightllm.engines.openai.answers import MalformedError, read_vectors
from flightllm.engines.openai.options import RESPONSE_BYTES, OpenAIOptions
from flightllm.engines.options import read_options
from flightllm.engines.secrets import shown_address
from flightllm.engines.window import LoopThread
from flightllm.errors import AnswerError, EngineError, EngineUnavailableError, MissingExtraError

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    import httpx2
    import openai

    from flightllm.engines.http_bodies import ENCODING, BodyError, EndpointClient, RedirectError
    from flightllm.engines.openai.faults import FaultKind, hidden, line_to_change, unreachable
except ImportError as error:
    raise MissingExtraError("the embedding engine 'openai'", "openai") from error

_CHARS_PER_TOKEN = 4
_PROBE_SECONDS = 5.0
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EmbeddingOptions(RolePrefixes):
    """The endpoint and its options; with `dimensions` 0 vectors have the model's own length.

    Endpoints reject texts that are too long for the model. `max_chars` cuts texts (0: no cut). `extra_body` adds keys
    to each request; vLLM cuts texts with `{truncate_prompt_tokens = -1}`.
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
            raise ValueError("batch must be at least 1, dimensions and max_chars must not be negative")
        if self.timeout <= 0 or self.max_retries < 0:
            raise ValueError("timeout must be above 0, max_retries must not be negative")
        if self.response_bytes < 1:
            raise ValueError(f"response_bytes: expected at least 1, got {self.response_bytes}")
        self._endpoint()

    def _endpoint(self) -> OpenAIOptions:
        return OpenAIOptions(self.base_url, self.api_key_env, self.api_key_file)

    def read_key(self) -> str:
        """Return the API key; see `OpenAIOptions.read_key`."""
        return self._endpoint().read_key()


class OpenAIEmbedder:
    """An embedder with one endpoint and model."""

    reconnects = True
    """The embedder stays usable when the endpoint dies and returns."""

    def __init__(self, model: str, options: EmbeddingOptions) -> None:
        self._model = model
        self._options = options
        self._client = openai.AsyncOpenAI(
            base_url=options.base_url,
            api_key=options.read_key(),
            timeout=options.timeout,
            max_retries=options.max_retries,
            default_headers={"Accept-Encoding": ENCODING},
            http_client=EndpointClient(options.response_bytes, timeout=options.timeout),
        )
        self._loop = LoopThread("embed")
        self._dimensions = options.dimensions
        self.name = f"openai ({model} at {shown_address(options.base_url)})"
        self.revision = f"openai-1 {options.base_url} {model} {options.dimensions} {_told(options)}"

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors; where it is not configured, embed a text to find the length."""
        if not self._dimensions:
            self._dimensions = self._length()
        return self._dimensions

    def _length(self) -> int:
        return int(self._post(["length"]).shape[1])

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; an HTTP request carries up to `batch` texts.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached.
            AnswerError: the endpoint rejects these texts, or its answer cannot be read.
            EngineError: the endpoint rejects all requests.
        """
        prefix, most = self._options.prefix(role), self._options.max_chars or None
        told = [prefix + text[:most] or " " for text in texts]  # endpoints reject an empty text
        parts = [
            self._checked(self._post(told[start : start + self._options.batch]))
            for start in range(0, len(told), self._options.batch)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self._dimensions), np.float32)

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens of a text at four characters each: the endpoint's tokenizer is unknown."""
        return -(-len(text) // _CHARS_PER_TOKEN)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        if not self._loop.closed:
            self._loop.run(self._client.close())
            self._loop.close()

    def _checked(self, vectors: Vectors) -> Vectors:
        """Return the vectors if they have the same length as all other vectors of the model.

        Raises:
            AnswerError: the vectors have another length.
        """
        rows, length = vectors.shape
        if length != self._dimensions:
            # A single vector must not set the length for all later vectors, so a second answer must confirm it.
            self._dimensions = length if rows > 1 and not self._dimensions else self._length()
        if length != self._dimensions:
            raise self._failed(f"returned a vector of {length} numbers, not {self._dimensions}")
        return vectors

    def _post(self, texts: list[str]) -> Vectors:
        try:
            return read_vectors(self._loop.run(self._sent(texts)), len(texts), self._options.dimensions)
        except (MalformedError, BodyError) as error:
            raise self._failed(f"returned an answer that cannot be read: {error}") from error
        except RedirectError as error:
            raise self._failed(str(error)) from error  # others of its answers can be right
        except openai.APIConnectionError as error:
            raise self._broken(error) from error
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise self._failed(
                f"rejected the request: {self._said(error)} (if the texts are too long for the model, set "
                "[embedding] max_chars, or for vLLM extra_body = {truncate_prompt_tokens = -1})"
            ) from error
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            raise EngineError(f"the embedding engine {self.name} rejects requests: {self._said(error)}") from error
        except openai.APIError as error:
            raise self._failed(f"failed: {self._said(error)}", shared=True) from error
        except UnicodeEncodeError as error:
            raise self._failed("cannot take a text with lone surrogates: UTF-8 cannot encode them") from error
        except Exception as error:
            # A response can raise any error in the client's packages, for example with an invalid charset or address.
            _log.warning("response not understood", engine=self.name, error_type=type(error).__name__)
            raise self._failed(f"returned a response that cannot be read ({type(error).__name__})") from error

    async def _sent(self, texts: list[str]) -> bytes:
        raw = await self._client.embeddings.with_raw_response.create(
            model=self._model,
            input=texts,
            dimensions=self._options.dimensions or openai.omit,
            extra_body=self._options.extra_body,
        )
        return raw.http_response.content

    async def _knock(self) -> None:
        impatient = self._client.with_options(max_retries=0, timeout=_PROBE_SECONDS)
        await impatient.with_raw_response.models.list()

    def _said(self, error: openai.APIError) -> str:
        return hidden(excerpt(error.message), self._client.api_key)

    def _failed(self, what: str, *, shared: bool = False) -> AnswerError:
        return AnswerError(f"the embedding engine {self.name} {what}", shared=shared)

    def _broken(self, error: openai.APIConnectionError) -> EngineError:
        """Return the error for a broken connection: the endpoint is gone, or it fails only for these texts."""
        cause = error.__cause__
        if isinstance(cause, httpx2.DecodingError | httpx2.TooManyRedirects):
            return self._failed(f"returned an answer that cannot be read: {excerpt(str(cause))}")
        gone = EngineUnavailableError(
            f"the embedding engine {self.name} cannot be reached: {hidden(unreachable(error), self._client.api_key)}"
            f"{line_to_change(FaultKind.UNREACHABLE, section='embedding')}"
        )
        if isinstance(cause, httpx2.TimeoutException | httpx2.ConnectError | httpx2.ProxyError):
            return gone
        try:
            self._loop.run(self._knock())
        except openai.APIConnectionError:
            return gone
        except Exception:  # noqa: BLE001 - any other error shows that the endpoint answers
            _log.debug("endpoint answers a probe", engine=self.name)
        return self._failed(f"broke off its answer: {excerpt(str(cause or error))}")


def _told(options: EmbeddingOptions) -> str:
    """Return the prefixes, the cut and the extra keys, which affect the vectors too."""
    return f"{options.query_prefix!r} {options.document_prefix!r} {options.max_chars} {dict(options.extra_body)!r}"


def create(config: EmbeddingConfig) -> OpenAIEmbedder:
    """Create the embedder that the configuration describes; this sends no request."""
    return OpenAIEmbedder(config.model, read_options(EmbeddingOptions, "openai", config.options, section="embedding"))
