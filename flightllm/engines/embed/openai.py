"""Embeddings from any OpenAI-compatible endpoint, such as a hosted API, `vllm serve` or Ollama."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import structlog

from flightllm.common.text import excerpt
from flightllm.engines.embed.base import Outcome, Role, RolePrefixes, TextsError, Vectors
from flightllm.engines.embed.request_limits import RequestLimits
from flightllm.engines.openai.answers import MalformedError, read_vectors
from flightllm.engines.openai.options import RESPONSE_BYTES, OpenAIOptions
from flightllm.engines.options import read_options
from flightllm.engines.secrets import shown_address
from flightllm.engines.shares import Shares
from flightllm.engines.window import LoopThread
from flightllm.errors import AnswerError, EngineError, EngineUnavailableError, MissingExtraError

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    import httpx2
    import openai

    from flightllm.engines.http_bodies import ENCODING, BodyError, EndpointClient, RedirectError
    from flightllm.engines.openai.delivery import Delivery, EndpointError, RowsError
    from flightllm.engines.openai.faults import (
        Fault,
        FaultKind,
        error_text,
        hidden,
        line_to_change,
        read_fault,
        unreachable,
    )
    from flightllm.engines.openai.verdicts import EndpointHistory, Trial
except ImportError as error:
    raise MissingExtraError("the embedding engine 'openai'", "openai") from error

_CHARS_PER_TOKEN = 4
_PROBE_SECONDS = 5.0
_SHORT = ["length"]
"""Texts that any model can embed."""
_REQUESTS = 64
"""The most requests in flight, of all queries together."""
_ACCOUNT = frozenset({FaultKind.KEY, FaultKind.DENIED, FaultKind.QUOTA, FaultKind.MODEL, FaultKind.PATH})
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
    estimates_tokens = True
    """The tokens of texts are estimates."""

    def __init__(self, model: str, options: EmbeddingOptions) -> None:
        self._model = model
        self._options = options
        self._client = openai.AsyncOpenAI(
            base_url=options.base_url,
            api_key=options.read_key(),
            timeout=options.timeout,
            max_retries=0,  # the delivery decides what to send again
            default_headers={"Accept-Encoding": ENCODING},
            http_client=EndpointClient(options.response_bytes, timeout=options.timeout),
        )
        self._loop = LoopThread("embed")
        self._limits = RequestLimits(options.batch)
        self._history = EndpointHistory(options.max_retries)
        window = _REQUESTS * options.batch
        self._delivery = Delivery(self._history, options.timeout, Shares(window), window, self._probe, options.batch)
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
        try:
            return int(self._loop.run(self._delivered(_SHORT)).shape[1])
        except _RefusedError as error:
            raise self._failed(str(error)) from error

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; an HTTP request carries up to `batch` texts.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached.
            TextsError: the endpoint rejects some of these texts; the error has the vectors of the others.
            AnswerError: the endpoint rejects all texts, or its answers cannot be read.
            EngineError: the endpoint rejects all requests.
        """
        prefix, most = self._options.prefix(role), self._options.max_chars or None
        told = [prefix + text[:most] or " " for text in texts]  # endpoints reject an empty text
        found = self._loop.run(self._in_requests(told))
        found = self._checked(found)
        vectors = [one for one in found if not isinstance(one, AnswerError)]
        if len(vectors) < len(found):
            raise TextsError(found)
        return np.stack(vectors) if vectors else np.empty((0, self._dimensions), np.float32)

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens of a text at four characters each: the endpoint's tokenizer is unknown."""
        return -(-len(text) // _CHARS_PER_TOKEN)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        if not self._loop.closed:
            self._loop.run(self._client.close())
            self._loop.close()

    def _checked(self, found: list[Outcome]) -> list[Outcome]:
        """Replace each vector by an error if it has another length than all other vectors of the model."""
        lengths = {len(one) for one in found if not isinstance(one, AnswerError)}
        if lengths - {self._dimensions}:
            # A single vector must not set the length for all later vectors, so a second answer must confirm it.
            sure = len(lengths) == 1 and len(found) > 1 and not self._dimensions
            self._dimensions = lengths.pop() if sure else self._length()
        return [
            one
            if isinstance(one, AnswerError) or len(one) == self._dimensions
            else self._failed(f"returned a vector of {len(one)} numbers, not {self._dimensions}")
            for one in found
        ]

    async def _in_requests(self, texts: list[str]) -> list[Outcome]:
        """Embed texts in requests that the endpoint accepts; a text that fails by itself has an error."""
        found: list[Outcome] = []
        while len(found) < len(texts):
            rest = texts[len(found) :]
            found += await self._divided(rest[: self._limits.fitting(rest)])
        return found

    async def _divided(self, texts: list[str]) -> list[Outcome]:
        """Embed texts in one request; if it fails, embed each half by itself."""
        try:
            return list(await self._delivered(texts))
        except _RefusedError as error:
            if len(texts) == 1:
                await self._check_others(error)
                return [self._failed(str(error))]
            if self._limits.read(error.said, len(texts)):
                return await self._in_requests(texts)
            middle = len(texts) // 2
            first, second = texts[:middle], texts[middle:]
            found = [*await self._in_requests(first), *await self._in_requests(second)]
            if error.said and not any(isinstance(one, AnswerError) for one in found):
                self._limits.learn(error.said, first)
            return found

    async def _check_others(self, error: _RefusedError) -> None:
        """Send a short text if nothing has ever succeeded.

        Raises:
            AnswerError: the short text fails too, so all other texts would.
        """
        if not self._history.worked:
            await self._probe()
        if not self._history.worked:
            raise self._failed(str(error), shared=True)

    async def _probe(self) -> None:
        with suppress(EndpointError, _RefusedError):
            await self._delivery.once(partial(self._outcome, _SHORT))

    async def _delivered(self, texts: list[str]) -> Vectors:
        """Send one request, and again after failures that can pass.

        Raises:
            _RefusedError: these texts fail, and others can succeed.
            EngineError: the account or the endpoint fails.
        """
        try:
            return await self._delivery.post(partial(self._outcome, texts), Trial(), lambda: None, len(texts))
        except RowsError as error:
            raise _RefusedError(str(error)) from error
        except EndpointError as error:
            raise self._final(error) from error

    def _final(self, error: EndpointError) -> EngineError:
        fault = error.fault
        text = f"the embedding engine {self.name} {fault.text}{line_to_change(fault.kind, section='embedding')}"
        return EngineError(text) if fault.kind in _ACCOUNT else EngineUnavailableError(text)

    async def _outcome(self, texts: list[str]) -> Vectors | Fault:
        """Send one HTTP request; return its vectors, or the fault.

        Raises:
            _RefusedError: the endpoint rejects these texts, or its answer cannot be read.
        """
        try:
            return read_vectors(await self._sent(texts), len(texts), self._options.dimensions)
        except (MalformedError, BodyError) as error:
            raise _RefusedError(f"returned an answer that cannot be read: {error}") from error
        except RedirectError as error:
            raise _RefusedError(str(error)) from error  # others of its answers can be right
        except openai.APITimeoutError:
            return Fault(FaultKind.TIMEOUT, f"did not answer within {self._options.timeout:g} s")
        except openai.APIConnectionError as error:
            return await self._broken(error)
        except openai.APIStatusError as error:
            return self._read_fault(error, len(texts))
        except openai.APIError as error:
            return Fault(FaultKind.FAILED, f"failed: {hidden(excerpt(error.message), self._client.api_key)}")
        except UnicodeEncodeError as error:
            raise _RefusedError("cannot take a text with lone surrogates: UTF-8 cannot encode them") from error
        except Exception as error:
            # A response can raise any error in the client's packages, for example with an invalid charset or address.
            _log.warning("response not understood", engine=self.name, error_type=type(error).__name__)
            raise _RefusedError(f"returned a response that cannot be read ({type(error).__name__})") from error

    def _read_fault(self, error: openai.APIStatusError, texts: int) -> Fault:
        """Return the fault for a status that can pass.

        Raises:
            _RefusedError: the endpoint rejects these texts, or so many texts.
        """
        fault = read_fault(error, self._model, self._client.api_key)
        if fault.kind is FaultKind.REFUSED:
            advice = (
                " (if the texts are too long for the model, set [embedding] max_chars, or for vLLM extra_body = "
                "{truncate_prompt_tokens = -1})"
            )
            raise _RefusedError(f"{fault.text}{advice}", f"{error.status_code} {error_text(error)}") from error
        if fault.kind is FaultKind.FAILED and texts > 1:  # some servers report a limit as an error of their own
            raise _RefusedError(fault.text, error_text(error)) from error
        return fault

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

    def _failed(self, what: str, *, shared: bool = False) -> AnswerError:
        return AnswerError(f"the embedding engine {self.name} {what}", shared=shared)

    async def _broken(self, error: openai.APIConnectionError) -> Fault:
        """Return the fault for a broken connection: the endpoint is gone, or it breaks off this answer."""
        cause = error.__cause__
        if isinstance(cause, httpx2.DecodingError | httpx2.TooManyRedirects):
            return Fault(FaultKind.BROKEN, f"returned an answer that cannot be read: {excerpt(str(cause))}")
        reason = hidden(unreachable(error), self._client.api_key)
        gone = Fault(FaultKind.UNREACHABLE, f"cannot be reached: {reason}")
        if isinstance(cause, httpx2.ConnectError | httpx2.ProxyError):
            return gone
        try:
            await self._knock()
        except openai.APIConnectionError:
            return gone
        except Exception:  # noqa: BLE001 - any other error shows that the endpoint answers
            _log.debug("endpoint answers a probe", engine=self.name)
        return Fault(FaultKind.BROKEN, f"broke off its answer: {excerpt(str(cause or error))}")


class _RefusedError(Exception):
    """An error for the texts of one request; the message follows the engine's name.

    `said` is the endpoint's refusal, or empty for any other failure.
    """

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


def _told(options: EmbeddingOptions) -> str:
    """Return the prefixes, the cut and the extra keys, which affect the vectors too."""
    return f"{options.query_prefix!r} {options.document_prefix!r} {options.max_chars} {dict(options.extra_body)!r}"


def create(config: EmbeddingConfig) -> OpenAIEmbedder:
    """Create the embedder that the configuration describes; this sends no request."""
    return OpenAIEmbedder(config.model, read_options(EmbeddingOptions, "openai", config.options, section="embedding"))
