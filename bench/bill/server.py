"""A local HTTP server that answers by a rule, and bills each request by its provider's published rules.

A request reads the cache when it arrives, and what it wrote can be read once its answer begins. So requests that
overlap in time find nothing of one another. The server speaks OpenAI's chat completions, and Anthropic's Messages API
at paths that end with `/messages`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from bench.bill.caches import Cache
from bench.bill.prices import Usage
from bench.bill.prompt import Prompt
from bench.bill.provider import Provider
from bench.bill.tokens import tokenizer
from bench.bill.wire import chat_answer, messages_answer, read_chat, read_messages

SECONDS: Final = 0.01
"""The time from a request's arrival to the begin of its answer."""
Reply = tuple[int, Mapping[str, Any]]


@dataclass(slots=True)
class Ledger:
    """The bills since the last `begin`, and the requests themselves."""

    usages: list[Usage] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class Endpoint:
    """The state of one provider's endpoint. Thread-safe."""

    def __init__(self, provider: Provider, seconds: float = SECONDS) -> None:
        self.provider = provider
        self._seconds = seconds
        self._lock = threading.Lock()
        _, self._tokenize = tokenizer(provider.name)
        self.ledger = Ledger()
        self._cache: Cache = provider.cache()

    def begin(self, *, cold: bool) -> Ledger:
        """Begin a new ledger and return it; `cold` also empties the cache."""
        with self._lock:
            self.ledger = Ledger()
            if cold:
                self._cache = self.provider.cache()
            return self.ledger

    def models(self) -> Reply:
        """Return the list of models."""
        return 200, {"object": "list", "data": [{"id": self.provider.model, "object": "model", "owned_by": "bench"}]}

    def reply(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Answer one request, and bill it."""
        native = path.endswith("/messages")
        refusal = self._refusal(body, native=native)
        read = (read_messages if native else read_chat)(body, self.provider, self._tokenize)
        refusal = refusal or self.provider.check(read.prompt)
        if refusal:
            self.ledger.refused.append(refusal)
            return 400, {"error": {"message": refusal, "type": "invalid_request_error"}}
        cached = native or self.provider.name != "anthropic"  # its OpenAI-compatible API has no cache
        with self._lock:
            split = self._cache.arrive(read.prompt, time.monotonic()) if cached else None
        time.sleep(self._seconds)
        tokens = len(read.prompt.tokens)
        got, written, long = (split.read, split.written, split.long) if split else (0, 0, 0)
        usage = Usage(tokens - got - written, got, written, len(self._tokenize(read.text)) + 1, long)
        with self._lock:
            if cached:
                self._cache.begin(read.prompt, time.monotonic())
            self.ledger.usages.append(usage)
            self.ledger.prompts.append(read.prompt)
            self.ledger.bodies.append(body)
        if native:
            return 200, messages_answer(read, self.provider.model, usage)
        return 200, chat_answer(read, self.provider.model, usage, self.provider)

    def _refusal(self, body: Mapping[str, Any], *, native: bool) -> str:
        """Return why the provider's API does not take a request's keys; empty if it takes them."""
        form = body.get("response_format", {}).get("type")
        if not native and form == "json_schema" and self.provider.name == "deepseek":
            return "This response_format type is unavailable now"
        marked = any("prompt_cache_breakpoint" in str(message["content"]) for message in body["messages"])
        if (marked or "prompt_cache_options" in body) and not self.provider.implicit:
            return "Unknown parameter: 'prompt_cache_options'."
        return ""


@contextmanager
def serving(provider: Provider, seconds: float = SECONDS) -> Iterator[tuple[Endpoint, str]]:
    """Serve a provider on a free port; yield its state, and the address of the server."""
    endpoint = Endpoint(provider, seconds)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self._send(*endpoint.reply(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

        def do_GET(self) -> None:
            self._send(*endpoint.models())

        def _send(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield endpoint, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
