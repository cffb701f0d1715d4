"""The HTTP client of the Messages API: Anthropic's own client, with the errors that the engine's other parts read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import anthropic
import httpx2
import openai
from anthropic.types.messages import MessageBatch

from flightllm.engines.anthropic.options import AnthropicOptions
from flightllm.engines.http_bodies import ENCODING, EndpointClient, keyed
from flightllm.engines.openai.options import OpenAIOptions

_HEADER = "x-api-key"
_BATCHES: Final = "/v1/messages/batches"


class MessagesClient:
    """A client of one endpoint. It has those parts of OpenAI's client that the readers of faults use."""

    def __init__(self, inner: anthropic.AsyncAnthropic) -> None:
        self._inner = inner

    @classmethod
    def of(cls, options: AnthropicOptions, http: OpenAIOptions, key: str) -> MessagesClient:
        """Return the client with the headers, query, proxy and limits of the options."""
        return cls(
            anthropic.AsyncAnthropic(
                base_url=options.address,
                api_key=key,
                timeout=options.timeout,
                max_retries=0,  # the engine itself decides what to send again
                default_headers={"Accept-Encoding": ENCODING, **http.read_headers()},
                default_query=http.read_query(),
                http_client=EndpointClient(
                    options.response_bytes,
                    timeout=options.timeout,
                    proxy=http.read_proxy(),
                    request=keyed(_HEADER, key, httpx2.URL(options.address).host),
                ),
            )
        )

    @property
    def timeout(self) -> Any:
        """Return the seconds that one request can take."""
        return self._inner.timeout

    def with_options(self, **options: Any) -> MessagesClient:
        """Return a client with other options over the same connections."""
        return MessagesClient(self._inner.with_options(**options))

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()

    @property
    def with_raw_response(self) -> MessagesClient:
        """Return the client itself: its methods return whole responses."""
        return self

    @property
    def models(self) -> MessagesClient:
        """Return the client itself, which lists the models."""
        return self

    async def list(self) -> Any:
        """Return the response with the endpoint's list of models."""
        with _translated():
            return await self._inner.with_raw_response.models.list()

    async def send(self, body: Mapping[str, Any]) -> bytes:
        """Send one request with this body; return the body of the response.

        Raises:
            openai.APIError: the endpoint rejects the request or fails; OpenAI's client has the same kinds of errors.
        """
        with _translated():  # `messages.create` would warn about each model that has a successor
            response = await self._inner.post("/v1/messages", cast_to=httpx2.Response, body=dict(body))
            return response.content

    async def add_batch(self, content: bytes) -> str:
        """Make a batch of a body in JSON; return its id."""
        with _translated():
            headers = {"Content-Type": "application/json"}
            batch = await self._inner.post(
                _BATCHES, cast_to=MessageBatch, content=content, options={"headers": headers}
            )
            return batch.id

    async def batch(self, batch_id: str) -> MessageBatch:
        """Return the state of a batch."""
        with _translated():
            return await self._inner.messages.batches.retrieve(batch_id)

    async def batches_since(self, since: float) -> Sequence[MessageBatch]:
        """Return the batches that were made after `since`, in seconds since 1970."""
        with _translated():
            found: list[MessageBatch] = []
            async for batch in self._inner.messages.batches.list(limit=100):  # the newest first
                if batch.created_at.timestamp() < since:
                    break
                found.append(batch)
            return found

    async def batch_results(self, batch_id: str) -> bytes:
        """Return the file with the results of a batch that has ended."""
        with _translated():
            path = f"{_BATCHES}/{quote(batch_id, safe='')}/results"
            return (await self._inner.get(path, cast_to=httpx2.Response)).content

    async def cancel_batch(self, batch_id: str) -> None:
        """Ask the endpoint to stop a batch."""
        with _translated():
            await self._inner.messages.batches.cancel(batch_id)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise the errors of Anthropic's client as those of OpenAI's, which has the same kinds of errors."""
    try:
        yield
    except anthropic.APITimeoutError as error:
        raise openai.APITimeoutError(request=error.request) from error.__cause__
    except anthropic.APIConnectionError as error:
        raise openai.APIConnectionError(message=error.message, request=error.request) from error.__cause__
    except anthropic.APIStatusError as error:
        raise openai.APIStatusError(error.message, response=error.response, body=error.body) from error
    except anthropic.APIError as error:
        raise openai.APIError(error.message, error.request, body=error.body) from error
