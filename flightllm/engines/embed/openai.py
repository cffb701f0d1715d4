"""Embeddings from any OpenAI-compatible endpoint, such as a hosted API, `vllm serve` or Ollama."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from flightllm.engines.embed.base import Outcome, RemoteEmbedder, Role, RolePrefixes, TextsError, Vectors
from flightllm.engines.embed.request_limits import RequestLimits
from flightllm.engines.openai.answers import MalformedError, read_vectors
from flightllm.engines.openai.options import RESPONSE_BYTES, OpenAIOptions
from flightllm.engines.options import read_options
from flightllm.engines.secrets import shown_address
from flightllm.engines.shares import Shares
from flightllm.engines.window import LoopThread
from flightllm.errors import AnswerError, EngineError, EngineUnavailableError, MissingExtraError
from flightllm.llm.engine import Dispatch

if TYPE_CHECKING:
    from flightllm.config import EmbeddingConfig

try:
    import openai

    from flightllm.engines.http_bodies import ENCODING, EndpointClient
    from flightllm.engines.openai.delivery import Delivery, EndpointError, RowsError, SpentError, count_try
    from flightllm.engines.openai.fault_reader import FaultReader, RefusedError
    from flightllm.engines.openai.faults import ACCOUNT, Fault, FaultKind, line_to_change
    from flightllm.engines.openai.verdicts import EndpointHistory, Trial
except ImportError as error:
    raise MissingExtraError("the embedding engine 'openai'", "openai") from error

_CHARS_PER_TOKEN = 4
_SHORT = "length"
"""A text that any model can embed."""
_REQUESTS = 64
"""The most requests in flight, of all queries together."""
_PARTS = 4
"""So many requests' worth of texts are divided together where the size of texts limits a request."""
_RETRIES = 2
"""A request with several texts is sent again so often before it is divided, and a text whose vector is bad."""
_ADVICE = (
    " (if the texts are too long for the model, set [embedding] max_chars, or for vLLM extra_body = "
    "{truncate_prompt_tokens = -1})"
)
_Text: TypeAlias = tuple[str, Dispatch]
T = TypeVar("T")


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
    max_retries: int = 8
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


class OpenAIEmbedder(RemoteEmbedder):
    """An embedder with one endpoint and model."""

    def __init__(self, model: str, options: EmbeddingOptions) -> None:
        self._model = model
        self._options = options
        key = options.read_key()
        self._client = openai.AsyncOpenAI(
            base_url=options.base_url,
            api_key=key,
            timeout=options.timeout,
            max_retries=0,  # the delivery decides what to send again
            default_headers={"Accept-Encoding": ENCODING},
            http_client=EndpointClient(options.response_bytes, timeout=options.timeout),
        )
        self.loop = LoopThread("embed")
        self._limits = RequestLimits(options.batch)
        self._history = EndpointHistory(options.max_retries)
        window = _REQUESTS * options.batch
        self.shares = Shares(window)
        self._delivery = Delivery(
            self._history, options.timeout, window, self._probe, options.batch, self.shares.resize
        )
        self._first = asyncio.Lock()
        """Held by the requests before the first success, so that one of them finds the limits."""
        self._dimensions = options.dimensions
        self.name = f"openai ({model} at {shown_address(options.base_url)})"
        self.revision = f"openai-1 {options.base_url} {model} {options.dimensions} {_told(options)}"
        self._faults = FaultReader(self.name, model, key, options.base_url, "text")

    @property
    def patience(self) -> float:
        """Return for how many seconds nothing must succeed before the endpoint counts as down."""
        return self._history.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self._history.patience = seconds

    @property
    def down_seconds(self) -> float:
        """Return for how long nothing has succeeded; 0 if the last request did."""
        return self._history.down_seconds

    @property
    def texts_at_once(self) -> int:
        """Return the texts of a request, or of several if their size limits a request: the last one is seldom full."""
        return self._limits.texts if self._limits.characters is None else _PARTS * self._limits.texts

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors; where it is not configured, embed a text to find the length."""
        if not self._dimensions:
            self._dimensions = self.loop.run(self._length(Dispatch()))
        return self._dimensions

    async def _length(self, dispatch: Dispatch) -> int:
        try:
            found = (await self._delivered([(_SHORT, dispatch)], Trial()))[0]
        except (RowsError, RefusedError) as error:
            raise self._failed(str(error)) from error
        if isinstance(found, AnswerError):
            raise found
        return len(found)

    def embed(self, texts: Sequence[str], role: Role = "document") -> Vectors:
        """Return a vector per text; an HTTP request carries up to `batch` texts.

        Raises:
            EngineUnavailableError: the endpoint cannot be reached.
            TextsError: the endpoint rejects some of these texts; the error has the vectors of the others.
            AnswerError: the endpoint rejects all texts, or its answers cannot be read.
            EngineError: the endpoint rejects all requests.
        """
        found = self.loop.run(self.outcomes(texts, role, [Dispatch() for _ in texts]))
        vectors = [one for one in found if not isinstance(one, AnswerError)]
        if len(vectors) < len(found):
            raise TextsError(found)
        return np.stack(vectors) if vectors else np.empty((0, self._dimensions), np.float32)

    async def outcomes(self, texts: Sequence[str], role: Role, dispatches: Sequence[Dispatch]) -> list[Outcome]:
        """Return the vector or the error of each text; see `RemoteEmbedder.outcomes`."""
        prefix, most = self._options.prefix(role), self._options.max_chars or None
        sent = [prefix + text[:most] or " " for text in texts]  # endpoints reject an empty text
        tried = list(zip(sent, dispatches, strict=True))
        try:
            if self._history.worked:
                found = await self._in_requests(tried)
            else:
                async with self._first:
                    alone = not self._history.worked
                    found = await self._in_requests(tried) if alone else []
                found = found if alone else await self._in_requests(tried)
            return await self._checked(found, dispatches)
        except AnswerError as error:
            if not error.shared:
                raise
            return [error] * len(texts)
        finally:
            self._delivery.carry(self.texts_at_once)

    def count_tokens(self, text: str) -> int:
        """Estimate the tokens of a text at four characters each: the endpoint's tokenizer is unknown."""
        return -(-len(text) // _CHARS_PER_TOKEN)

    def close(self) -> None:
        """Close the connections. Idempotent."""
        if not self.loop.closed:
            self.loop.run(self._client.close())
            self.loop.close()

    async def _checked(self, found: list[Outcome], dispatches: Sequence[Dispatch]) -> list[Outcome]:
        """Replace each vector by an error if it has another length than all other vectors of the model."""
        lengths = {len(one) for one in found if not isinstance(one, AnswerError)}
        if lengths - {self._dimensions}:
            # A single vector must not set the length for all later vectors, so a second answer must confirm it.
            sure = len(lengths) == 1 and len(found) > 1 and not self._dimensions
            self._dimensions = lengths.pop() if sure else await self._length(dispatches[0])
        return [
            one
            if isinstance(one, AnswerError) or len(one) == self._dimensions
            else self._failed(f"returned a vector of {len(one)} numbers, not {self._dimensions}")
            for one in found
        ]

    async def _in_requests(self, texts: Sequence[_Text], failed: str = "") -> list[Outcome]:
        """Embed texts in requests that the endpoint accepts: after the first, the others run at once.

        `failed` says why an earlier request with these texts failed.
        """
        first = self._limits.fitting([text for text, _ in texts], more=True)
        found = await self._divided(texts[:first], failed) if texts else []
        parts, start = [], len(found)
        while start < len(texts):
            end = start + self._limits.fitting([text for text, _ in texts[start:]])
            parts.append(texts[start:end])
            start = end
        return [*found, *chain(*await _together(self._divided(part, failed) for part in parts))]

    async def _divided(self, texts: Sequence[_Text], failed: str = "", *, suspect: bool = False) -> list[Outcome]:
        """Embed texts in one request; if it fails, embed each half by itself.

        Texts are suspect if a request with all of them failed again and again while others succeeded. Requests with
        several of them are sent only once. A single text has all of its retries.
        """
        retries = None if len(texts) == 1 else 0 if suspect else min(_RETRIES, self._options.max_retries)
        try:
            found = await self._delivered(texts, Trial(retries, proofs=int(len(texts) > 1), failed=failed))
        except SpentError as error:
            return [self._failed(str(error))] * len(texts)
        except (RowsError, RefusedError) as error:
            if len(texts) == 1:
                await self._check_others(error, texts[0])
                return [self._failed(f"{error}{_ADVICE if isinstance(error, RefusedError) and error.said else ''}")]
            middle = len(texts) // 2
            first, second = texts[:middle], texts[middle:]
            if isinstance(error, RowsError):
                halves = (self._divided(half, str(error), suspect=True) for half in (first, second))
                found = [*chain(*await _together(halves))]
                if not suspect and not any(isinstance(one, AnswerError) for one in found):
                    self._limits.doubt([text for text, _ in texts])
                return found
            if self._limits.read(error.said, len(texts)):
                return await self._in_requests(texts, str(error))
            found = [*await self._in_requests(first, str(error)), *await self._in_requests(second, str(error))]
            if (error.said or error.of_lists) and not any(isinstance(one, AnswerError) for one in found):
                self._limits.learn(error.said, [text for text, _ in texts])
            return found
        self._limits.accepted([text for text, _ in texts])
        return found

    async def _check_others(self, error: Exception, text: _Text) -> None:
        """Send a short text if nothing has ever succeeded.

        Raises:
            AnswerError: the short text fails too, so all other texts would.
        """
        if not self._history.worked and count_try([text[1]]) is None:
            await self._probe()
        if not self._history.worked:
            raise self._failed(str(error), shared=True)

    async def _probe(self) -> None:
        with suppress(EndpointError, RefusedError):
            await self._delivery.once(partial(self._outcome, [_SHORT]))

    async def _delivered(self, texts: Sequence[_Text], trial: Trial) -> list[Outcome]:
        """Send one request, and again after failures that can pass. A text with an unreadable vector is sent again.

        Raises:
            RowsError: these texts fail where others succeed, or one of them can be the cause.
            RefusedError: the endpoint rejects these texts, or its answer cannot be read.
            EngineError: the account or the endpoint fails.
        """
        send = partial(self._outcome, [text for text, _ in texts])
        try:
            found = await self._delivery.post(send, trial, [dispatch for _, dispatch in texts])
        except EndpointError as error:
            raise self._final(error) from error
        return await _together(self._read(one, text) for one, text in zip(found, texts, strict=True))

    async def _read(self, found: NDArray[np.float32] | MalformedError, text: _Text) -> Outcome:
        if not isinstance(found, MalformedError):
            return found
        failed = f"returned an answer that cannot be read: {found}"
        try:
            return (
                await self._delivered([text], Trial(min(_RETRIES, self._options.max_retries), proofs=1, failed=failed))
            )[0]
        except (RowsError, RefusedError) as error:
            return self._failed(str(error))

    def _final(self, error: EndpointError) -> EngineError:
        kind = error.fault.kind
        text = f"the embedding engine {self.name} {error.text}{line_to_change(kind, section='embedding')}"
        return EngineError(text) if kind in ACCOUNT else EngineUnavailableError(text)

    async def _outcome(self, texts: list[str]) -> list[NDArray[np.float32] | MalformedError] | Fault:
        """Send one HTTP request; return its vectors, or the fault. A vector that cannot be read is an error.

        Raises:
            RefusedError: the endpoint rejects these texts, or so many texts, or its answer cannot be read.
        """
        try:
            return read_vectors(await self._sent(texts), len(texts))
        except Exception as error:
            fault = await self._faults.read(error, self._client, len(texts))
            if len(texts) > 1 and fault.kind is FaultKind.FAILED and self._limits.explain(fault.said):
                raise RefusedError(fault.text, said=fault.said) from error  # some servers report limits as their fault
            return fault

    async def _sent(self, texts: list[str]) -> bytes:
        raw = await self._client.embeddings.with_raw_response.create(
            model=self._model,
            input=texts,
            dimensions=self._options.dimensions or openai.omit,
            extra_body=self._options.extra_body,
        )
        return raw.http_response.content

    def _failed(self, what: str, *, shared: bool = False) -> AnswerError:
        return AnswerError(f"the embedding engine {self.name} {what}", shared=shared)


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines at once; return their results in order. The first error stops the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _told(options: EmbeddingOptions) -> str:
    """Return the prefixes, the cut and the extra keys, which affect the vectors too."""
    return f"{options.query_prefix!r} {options.document_prefix!r} {options.max_chars} {dict(options.extra_body)!r}"


def create(config: EmbeddingConfig) -> OpenAIEmbedder:
    """Create the embedder that the configuration describes; this sends no request."""
    return OpenAIEmbedder(config.model, read_options(EmbeddingOptions, "openai", config.options, section="embedding"))
