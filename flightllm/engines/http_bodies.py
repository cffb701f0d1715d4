"""Bound the memory of an endpoint's response: decompress its body here, and count the bytes while they arrive.

The hooks below replace the decoders of httpx2's clients, and add a limit on the decompressed bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpx2
import openai

ENCODING = "gzip"
"""The encoding that requests accept; it can be decompressed piece by piece."""
_PIECE = 1 << 18
"""The most bytes to decompress at once."""


class BodyError(openai.OpenAIError):
    """An error for a body above the limit, or with an encoding that the request did not accept; not retried."""


def bound(limit: int) -> Callable[[httpx2.Response], None]:
    """Return a response hook for a client: a body above `limit` decompressed bytes raises `BodyError`."""

    def hook(response: httpx2.Response) -> None:
        stream = response.stream
        if isinstance(stream, httpx2.SyncByteStream):
            response.stream = _Bounded(stream, _Counter(response, limit))

    return hook


def bound_async(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return the hook of `bound` for an asynchronous client."""

    async def hook(response: httpx2.Response) -> None:
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _BoundedAsync(stream, _Counter(response, limit))

    return hook


def keyed(header: str, key: str, host: str) -> Callable[[httpx2.Request], Awaitable[None]]:
    """Return a request hook for a client that sends the key in `header`, and only to `host`."""

    async def hook(request: httpx2.Request) -> None:
        request.headers.pop("Authorization", None)
        request.headers.pop(header, None)
        if request.url.host == host:
            request.headers[header] = key

    return hook


def redirected(error: httpx2.RequestError, base_url: str) -> bool:
    """Return whether a request failed at another address, to which the endpoint redirected it."""
    asked, own = error.request.url, httpx2.URL(base_url)
    return (asked.scheme, asked.host, asked.port) != (own.scheme, own.host, own.port)


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


class _Bounded(httpx2.SyncByteStream):
    """A body, decompressed while it arrives."""

    def __init__(self, stream: httpx2.SyncByteStream, counter: _Counter) -> None:
        self._stream = stream
        self._counter = counter

    def __iter__(self) -> Iterator[bytes]:
        self._counter.begin()
        for raw in self._stream:
            yield from self._counter.pieces(raw)
        self._counter.end()

    def close(self) -> None:
        self._stream.close()


class _BoundedAsync(httpx2.AsyncByteStream):
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
