"""Limits on connections to the HTTP server: silent ones are closed, and too many are refused with 503."""

import asyncio
from collections.abc import Sized
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 5.0
"""The time for a request to arrive, from its first byte or the start of the connection to its last byte."""
TAKES_TIME = "flightllm takes time"
"""The key in a request's scope that a handler sets once it knows the user, before it reads a long body.

Such a request has no limit here as long as its bytes arrive.
"""
_ALWAYS = ("/healthz", "/readyz")


class PromptProtocol(H11Protocol):
    """uvicorn's protocol with a time limit for a whole request; uvicorn itself waits for ever."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._late: asyncio.TimerHandle | None = None
        self._whole: object = None
        """The last request that arrived in full."""
        self._arrived = False
        """Whether bytes have arrived since the timer started."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Start the timer for the rest of a request, or stop it if the request is complete."""
        if self._late is None:
            self._wait()
        self._arrived = True
        super().data_received(data)
        if self.cycle is not self._whole and not self.cycle.more_body:
            self._whole = self.cycle
            self._wait_no_longer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._arrived = False
        self._late = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._late = None
        if self._whole is not None and self.cycle is self._whole and not self.cycle.response_complete:
            self._wait()  # the bytes belong to the next request; the answer to this one can take long
        elif self._arrived and self._takes_time():
            self._wait()
        else:
            self.transport.abort()

    def _takes_time(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is not None and TAKES_TIME in cycle.scope

    def _wait_no_longer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def bounded(app: ASGIApp, connections: Sized, most: int) -> ASGIApp:
    """Return an application that answers 503 above `most` connections, except to health checks."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if len(connections) > most and scope.get("path") not in _ALWAYS:
            response = PlainTextResponse("too many connections: try again later\n", 503, {"connection": "close"})
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answer
