"""The HTTP client of endpoints: bounds on the memory and time of a response, and no redirect to another server.

The hooks below replace the decoders of httpx2's clients, and add a limit on the decompressed bytes.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import httpx2
import openai

ENCODING = "gzip"
"""The encoding that requests accept; it can be decompressed piece by piece."""
_SHOWN_ADDRESS = 200
_PIECE = 1 << 18
"""The most bytes to decompress at once."""


class BodyError(openai.OpenAIError):
    """An error for a body above the limit, or with an encoding that the request did not accept; not retried."""


class RedirectError(openai.OpenAIError):
    """An error for an endpoint that redirects to another server; not retried."""


class EndpointClient(openai.DefaultAsyncHttpxClient):
    """A client that bounds the time of each request as a whole, and the decompressed bytes of each response.

    The read timeout of httpx2 begins again with each byte, so an endpoint that sends a byte at a time would never end.
    Redirects to another server are errors, because the key and the prompts would go there.
    """

    def __init__(
        self,
        response_bytes: int,
        *,
        timeout: float,
        proxy: str | None = None,
        request: Callable[[httpx2.Request], Awaitable[None]] | None = None,
        response: Callable[[httpx2.Response], Awaitable[None]] | None = None,
    ) -> None:
        """`request` and `response` are further hooks."""
        hooks: dict[str, list[Callable[..., Any]]] = {
            "request": [request] if request else [],
            "response": [stays, bound(response_bytes), *([response] if response else [])],
        }
        super().__init__(event_hooks=hooks, timeout=timeout, proxy=proxy)

    async def send(self, request: httpx2.Request, **more: Any) -> httpx2.Response:
        """Send a request, and read its response within the request's read timeout.

        Raises:
            httpx2.ReadTimeout: the response was not complete in time.
        """
        seconds = request.extensions.get("timeout", {}).get("read")
        try:
            async with asyncio.timeout(seconds):
                return await super().send(request, **more)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("the response was not complete in time", request=request) from error


async def stays(response: httpx2.Response) -> None:
    """Check, as a response hook, that a redirect stays at the same scheme, host and port.

    Raises:
        RedirectError: it does not.
    """
    if not response.has_redirect_location:
        return
    asked = response.request.url
    try:
        target = asked.join(response.headers["location"])
        origin = _origin(target)
    except (httpx2.InvalidURL, ValueError):
        return  # the client refuses this address, which is a fault of one response
    if origin != _origin(asked):
        scheme, host, _ = origin
        port = "" if target.port is None else f":{target.port}"
        named = f"{scheme}://{host}{port}"[:_SHOWN_ADDRESS]
        raise RedirectError(
            f"redirects to {named}, which gets neither key nor prompts: if that is right, write it into base_url"
        )


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def bound(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a response hook for a client: a body above `limit` decompressed bytes raises `BodyError`."""

    async def hook(response: httpx2.Response) -> None:
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(stream, _Counter(response, limit))

    return hook


def keyed(header: str, key: str, host: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Return a request hook for a client that sends the key in `header`, and only to `host`."""

    async def hook(request: httpx2.Request) -> None:
        request.headers.pop("Authorization", None)
        request.headers.pop(header, None)
        if request.url.host == host:
            request.headers[header] = key

    return hook


class _Counter:
    """A decoder of one body that counts the decompressed bytes."""

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        self._request = getattr(response, "request", None)
        self._limit = limit
        self._left = limit
        self._encodings = [name for name in _encodings(response) if name != "identity"]
        self._unpacker = _unpacker(self._encodings)
        self._begun = False
        response.headers.pop("content-encoding", None)  # httpx2 gets decompressed bytes
        length = response.headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > limit:
            self._left = -1

    def begin(self) -> None:
        """Reject a body by its headers, before any byte is read.

        Raises:
            BodyError: the length is above the limit, or the encoding is unsupported.
        """
        if self._left < 0:
            raise self._too_large()
        if self._encodings and self._unpacker is None:
            raise BodyError(
                f"the response body is encoded as {', '.join(self._encodings)[:80]!a}; the request accepts {ENCODING}"
            )

    def pieces(self, raw: bytes) -> Iterator[bytes]:
        """Yield some bytes decompressed, in pieces.

        Raises:
            BodyError: the body is above the limit.
            httpx2.DecodingError: the bytes cannot be decompressed.
        """
        if self._unpacker is None:
            yield self._counted(raw)
            return
        self._begun = self._begun or bool(raw)
        while raw and not self._unpacker.eof:
            try:
                piece = self._unpacker.decompress(raw, _PIECE)
            except zlib.error as error:
                raise httpx2.DecodingError(str(error), request=self._request) from error
            raw = self._unpacker.unconsumed_tail
            yield self._counted(piece)

    def end(self) -> None:
        """Check that a compressed body is complete or empty.

        Raises:
            httpx2.DecodingError: the body is cut short.
        """
        if self._unpacker is not None and self._begun and not self._unpacker.eof:
            raise httpx2.DecodingError("the compressed body is cut short", request=self._request)

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise self._too_large()
        return piece

    def _too_large(self) -> BodyError:
        return BodyError(f"the response body is larger than response_bytes = {self._limit:,}")


class _Bounded(httpx2.AsyncByteStream):
    """A body, decompressed while it arrives."""

    def __init__(self, stream: httpx2.AsyncByteStream, counter: _Counter) -> None:
        self._stream = stream
        self._counter = counter

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._counter.begin()
        async for raw in self._stream:
            for piece in self._counter.pieces(raw):
                yield piece
        self._counter.end()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _encodings(response: httpx2.Response) -> list[str]:
    return [name.strip().lower() for name in response.headers.get_list("content-encoding", split_commas=True)]


def _unpacker(encodings: list[str]) -> zlib._Decompress | None:
    match encodings:
        case ["gzip" | "x-gzip"]:
            return zlib.decompressobj(zlib.MAX_WBITS | 16)
        case ["deflate"]:
            return zlib.decompressobj()
        case _:
            return None
