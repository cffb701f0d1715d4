"""`flightllm mcp` as a process: over standard input, and over HTTP for several users at once."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from flightllm.cli import main
from flightllm.client import Client
from flightllm.flight.server import FlightSqlServer
from flightllm.mcp.callers import Callers, credentials
from flightllm.mcp.limits import Limits
from flightllm.mcp.serving import HttpPlace, HttpServer
from flightllm.session.database import Database
from tests.mcp.support import told
from tests.servers import ServerProcess, await_true

Run = Callable[[Awaitable[Any]], Any]


@contextmanager
def over_http(uri: str, folder: Path, *options: str) -> Iterator[str]:
    """Run `flightllm mcp` over HTTP for the server at `uri`, and yield its address."""
    command = [sys.executable, "-m", "flightllm", "mcp", "--uri", uri, "--listen", "127.0.0.1:0", *options]
    environment = {**os.environ, "FLIGHTLLM_HOME": str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            line = next((line for line in process.stdout or () if line.startswith("listening ")), "")
            yield line.removeprefix("listening ").strip()
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module")
def address(server: FlightSqlServer) -> Iterator[str]:
    """Serve the users of the server over HTTP, from this process."""

    def connect(authorization: str) -> Client:
        login, token = credentials(authorization)
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return Client(server.uri, headers, login=login)

    with closing(Callers(connect)) as callers:
        web = HttpServer(callers, Limits(), HttpPlace("127.0.0.1:0"))
        thread = Thread(target=web.run)
        thread.start()
        yield web.address
        web.stop()
        thread.join(20)


@asynccontextmanager
async def connected(address: str, authorization: str, **options: Any) -> AsyncIterator[McpClient]:
    """Connect the official client with an `Authorization` header."""
    async with (
        httpx2.AsyncClient(headers={"authorization": authorization}, timeout=60) as http,
        McpClient(streamable_http_client(address, http_client=http), **options) as client,
    ):
        yield client


def status(address: str, body: bytes = b"{}", **headers: str) -> int:
    """Return the HTTP status of a request."""
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    request = urllib.request.Request(address, data=body, headers=sent)  # noqa: S310 - this machine's
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_files_over_stdio(tmp_path: Path, run: Run) -> None:
    """An agent starts the command with a file, and asks; other files of the user stay closed to it."""
    (tmp_path / "tickets.csv").write_text("id,body\n1,Where is my parcel?\n2,Thanks!\n")
    (tmp_path / "secret.csv").write_text("key\n42\n")
    arguments = ["-m", "flightllm", "mcp", "--engine", "fake", "tickets.csv"]
    environment = {**os.environ, "FLIGHTLLM_HOME": str(tmp_path / "home")}
    process = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=tmp_path)

    async def work() -> None:
        async with McpClient(process) as client:
            assert "ai_filter(" in (client.instructions or "")
            assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["list_tables", "describe"]
            found = await told(client, "query", {"sql": "SELECT id, ai_sentiment(body) AS s FROM tickets"})
            assert found.data["row_count"] == 2
            assert found.data["cost"]["calls"] == 2
            for sql in (f"SELECT * FROM '{tmp_path}/secret.csv'", f"SELECT * FROM read_csv('{tmp_path}/secret.csv')"):
                assert (await told(client, "query", {"sql": sql})).failed
            assert "'nope' was unexpected" in (await told(client, "query", {"sql": "SELECT 1", "nope": 1})).text
            cut = await told(client, "query", {"sql": "SELECT id FROM tickets", "max_rows": 1})
            assert (cut.data["rows_left"], "OFFSET 1" in cut.text) == (1, True)

    run(work())


def test_price_limits_over_http(address: str, database: Database, run: Run) -> None:
    """A limit of the price refuses a dear statement, and a cheap one says what it cost."""
    token = f"Bearer {database.access.store.add_token('root')}"
    sql = "SELECT ai_gen('Over HTTP {b}', b) AS told FROM open_t WHERE a <= 3"

    async def work() -> None:
        async with connected(address, token) as client:
            dear = await told(client, "query", {"sql": sql, "max_cost": 0.000001})
            assert dear.failed
            assert "flightllm.max_cost" in dear.text
            wrong = await told(client, "query", {"sql": sql, "max_cost": "much"})
            assert "max_cost: 'much' is not of type 'number'" in wrong.text
            good = await told(client, "query", {"sql": sql, "max_cost": 0.5, "max_rows": 1})
            assert 0 < good.data["cost"]["price"] <= 0.5
            assert f"{good.data['cost']['calls']} model call" in good.text
            assert "the rows are cut" in good.text

    run(work())


def test_each_caller_has_its_own_login(address: str, database: Database, run: Run) -> None:
    """Over HTTP two users at once, by token and by password, see what each can read, in sessions of their own."""
    tokens = [f"Bearer {database.access.store.add_token(name)}" for name in ("root", "ann")]
    basic = f"Basic {base64.b64encode(b'ann:a long password').decode()}"

    async def names(client: McpClient) -> list[str]:
        return [one["name"] for one in (await told(client, "list_tables", {})).data["tables"]]

    async def setting(client: McpClient) -> Any:
        return (await told(client, "query", {"sql": "SHOW flightllm.dialect"})).data["rows"][0][1]

    async def work() -> None:
        async with (
            connected(address, tokens[0], mode="legacy") as root,
            connected(address, tokens[0], mode="legacy") as other,
            connected(address, tokens[1]) as ann,
            connected(address, basic) as with_password,
        ):
            assert await asyncio.gather(*map(names, (root, ann, with_password))) == [
                ["open_t", "shut_t"],
                ["open_t"],
                ["open_t"],
            ]
            await told(root, "query", {"sql": "SET flightllm.dialect = 'snowflake'"})
            assert [await setting(client) for client in (root, other, ann)] == ["snowflake", "default", "default"]

    run(work())


@pytest.mark.slow
def test_many_sessions_at_once(address: str, database: Database, run: Run) -> None:
    """Twenty sessions of two users run ten statements each, and each has the rows and the settings of its own."""
    tokens = [f"Bearer {database.access.store.add_token(name)}" for name in ("root", "ann")]

    async def session(number: int) -> None:
        async with connected(address, tokens[number % 2], mode="legacy") as client:
            await told(client, "query", {"sql": f"SET flightllm.max_tokens = '{number + 1}'"})
            for step in range(10):
                sql = f"SELECT a + {step} FROM open_t WHERE a = {number + 1}"
                assert (await told(client, "query", {"sql": sql})).data["rows"] == [[number + 1 + step]]
            shown = await told(client, "query", {"sql": "SHOW flightllm.max_tokens"})
            assert shown.data["rows"][0][1] == str(number + 1)

    async def work() -> None:
        await asyncio.gather(*map(session, range(20)))

    run(work())


@pytest.mark.slow
def test_files_over_http(tmp_path: Path, run: Run) -> None:
    """Over HTTP, files need the token that the command prints: other users of the machine do not have it."""
    (tmp_path / "tickets.csv").write_text("id,body\n1,Thanks!\n")
    command = [sys.executable, "-m", "flightllm", "mcp", "--listen", "127.0.0.1:0", "--engine", "fake", "tickets.csv"]
    environment = {**os.environ, "FLIGHTLLM_HOME": str(tmp_path / "home")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as process:
        try:
            lines = iter(process.stdout or ())
            address = next(lines).removeprefix("listening ").strip()
            authorization = next(lines).partition("`Authorization: ")[2].strip("`\n")
            assert status(address) == 401

            async def work() -> None:
                async with connected(address, authorization) as client:
                    assert (await told(client, "describe", {"table": "tickets"})).data["row_count"] == 1

            run(work())
        finally:
            process.terminate()
            process.wait(20)


def test_strangers_are_refused(address: str, database: Database) -> None:
    """No login, a wrong one, a foreign host or origin, and another user's session get an HTTP error."""
    good = f"Bearer {database.access.store.add_token('ann')}"
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    body = json.dumps(opening).encode()
    assert status(address, body) == 401
    assert status(address, body, authorization="Bearer nonsense") == 401
    assert status(address, body, authorization="Basic ???") == 401
    assert status(address, body, authorization=f"Basic {base64.b64encode(b'ann:wrong').decode()}") == 401
    assert status(address, body, authorization=good) == 200
    assert status(address, body, authorization=good, host="evil.example") == 421
    assert status(address, body, authorization=good, origin="https://evil.example") == 403
    assert status(address, b"not JSON", authorization=good) == 400
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", "authorization": good}
    request = urllib.request.Request(address, data=body, headers=sent)  # noqa: S310 - this machine's
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        session = answer.headers["mcp-session-id"]
    other = f"Bearer {database.access.store.add_token('root')}"
    ping = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode()
    assert status(address, ping, authorization=good, mcp_session_id=session) == 200
    assert status(address, ping, authorization=other, mcp_session_id=session) == 404


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_cancel_stops_model_calls(tmp_path: Path, run: Run, mode: str) -> None:
    """A cancelled tool call stops its statement at the server; before that, the client hears of its progress."""
    sql = "SELECT ai_gen('Tell of {number}', number => n) AS told FROM t"
    heard: list[tuple[float, float | None]] = []

    async def work(address: str) -> None:
        first = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            assert "of 200 answers" in (message or "")
            heard.append((progress, total))
            first.set()

        async with connected(address, "", mode=mode) as client:
            arguments = {"sql": sql, "max_rows": 500}
            call = asyncio.ensure_future(client.call_tool("query", arguments, progress_callback=hear))
            await first.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    with ServerProcess(tmp_path, 200, 8, latency_ms=5, halt_after=40) as server:
        with over_http(server.uri, tmp_path) as address:
            run(work(address))

            literal = sql.replace("'", "''")
            status = f"SELECT status FROM system.queries WHERE sql = '{literal}'"
            await_true(lambda: server.query(status) == [("cancelled",)], 20)
        assert len(server.prompts()) < 100
    assert heard[0][1] == 200


def test_unsafe_options_are_refused() -> None:
    """Nobody's login is shared, and no credentials go in plain text beyond this machine."""
    run = CliRunner()
    shared = run.invoke(main, ["mcp", "--listen", "127.0.0.1:0"], env={"FLIGHTLLM_TOKEN": "secret"})
    assert shared.exit_code == 2
    assert "a login of its own" in shared.output
    plain = run.invoke(main, ["mcp", "--listen", "0.0.0.0:8765"])
    assert plain.exit_code == 1
    assert "--tls-certificate" in plain.output


def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK, the command says what to install."""
    for name in [name for name in sys.modules if name == "mcp" or name.startswith(("mcp.", "flightllm.mcp."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 1
    assert "'flightllm[mcp]'" in result.output
