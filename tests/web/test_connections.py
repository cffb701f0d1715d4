"""Connections that say nothing cost nobody an answer."""

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from flightllm.config import HttpConfig
from flightllm.session.database import Database
from flightllm.web import connections
from flightllm.web.http_server import HttpServer
from tests.servers import serving

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
BODY = b"POST /api/sign-in HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nContent-Type: application/json\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServer]:
    """Serve the page and health over HTTP."""
    with serving(tmp_path) as flight_server:
        database = flight_server._core.database
        assert isinstance(database, Database)
        with HttpServer(HttpConfig("127.0.0.1:0", page=True), database, flight_server) as server:
            yield server


def _connect(server: HttpServer, sent: bytes) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", server.port or 0), timeout=60)
    opened.sendall(sent)
    return opened


def _status(server: HttpServer, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", path)
        with connection.getresponse() as response:  # it holds the socket where the server closes the connection
            return response.status


def test_health_is_told_beside_any_number(server: HttpServer) -> None:
    """Where there are more connections than may be, only those who ask for anything but health are sent away."""
    with ExitStack() as held:
        for _ in range(260):
            held.enter_context(closing(_connect(server, HALF)))
        assert [_status(server, path) for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 503]


@pytest.mark.parametrize(
    "sent",
    [b"", HALF, HALF + b"\r\n" + HALF, BODY + b"Content-Length: 10\r\n\r\n{"],
    ids=["nothing", "half a head", "half of a second head", "half a body"],
)
def test_half_a_request(server: HttpServer, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is closed that sends no whole request in time, though now and then it sends a byte."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)
    with closing(_connect(server, sent)) as opened:
        opened.settimeout(0.05)
        for _ in range(2_400):  # two minutes
            try:
                opened.sendall(b"x")
                if not opened.recv(1_000):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
    pytest.fail("the connection is still open")


def test_whole_requests_one_after_another(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that sends whole requests stays: once one is there, nothing is left that would close it."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 3_600.0)
    waits, wait = list[asyncio.TimerHandle](), connections.PromptProtocol._wait

    def noted(protocol: connections.PromptProtocol) -> None:
        wait(protocol)
        assert protocol._late is not None
        waits.append(protocol._late)

    monkeypatch.setattr(connections.PromptProtocol, "_wait", noted)
    with closing(_connect(server, b"")) as opened:
        for count in range(1, 9):
            opened.sendall(HALF + b"\r\n")
            received = b""
            while not received.endswith(b'{"status":"ok"}'):
                received += (part := opened.recv(1_000))
                assert part, f"the connection was closed after {received!r}"
            assert received.startswith(b"HTTP/1.1 200")
            assert [one.cancelled() for one in waits] == [True] * count


def test_an_answer_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come after a whole request do not end its answer, however often their time is over."""
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 3_600.0)
    asked, over, give_up = threading.Event(), asyncio.Semaphore(0), connections.PromptProtocol._give_up

    def counted(protocol: connections.PromptProtocol) -> None:
        give_up(protocol)
        over.release()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        asked.set()
        for _ in range(3):
            await over.acquire()
        await PlainTextResponse("at last")(scope, receive, send)

    monkeypatch.setattr(connections.PromptProtocol, "_give_up", counted)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(slow, http=connections.PromptProtocol, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    with closing(socket.create_connection(listening.getsockname(), timeout=60)) as opened:
        opened.sendall(HALF + b"\r\n")
        assert asked.wait(60)
        monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.05)
        opened.sendall(b"GET")
        text = b""
        while more := opened.recv(1_000):
            text += more
    server.should_exit = True
    thread.join(60)
    assert not thread.is_alive()
    assert text.endswith(b"at last")
