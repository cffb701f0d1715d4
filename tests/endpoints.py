"""A loopback HTTP server that answers like an OpenAI-compatible endpoint, or as a test wants it to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
Reply = tuple[int, Body, dict[str, str]]
Behave = Callable[[str, Body, int], Reply]
"""Turns a path, a body and the number of requests before into a reply."""


@dataclass
class Endpoint:
    """A loopback HTTP server; `behave` turns a path and a body into status, body and headers."""

    behave: Behave
    bodies: list[Body] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    models: list[Body] | None = None
    """What GET of `/models` lists; None: there is no such list."""
    pages: dict[str, Body | bytes] = field(default_factory=dict)
    """What GET of other paths returns."""
    got: list[tuple[str, str | None]] = field(default_factory=list)
    """Each GET: its path, and the key that came with it."""


def answer(path: str, body: Body) -> Reply:
    """Answer as a well-behaved endpoint does: each prompt's length as text."""
    prompts = body["messages"][0]["content"] if "messages" in body else body["prompt"]
    texts = [f"text {len(prompt)}" for prompt in (prompts if isinstance(prompts, list) else [prompts])]
    usage = {"prompt_tokens": 10 * len(texts), "completion_tokens": 2 * len(texts), "total_tokens": 12 * len(texts)}
    usage |= {"prompt_tokens_details": {"cached_tokens": 3 * len(texts)}}  # type: ignore[dict-item]
    frame = {"id": "1", "created": 1, "model": body["model"], "usage": usage}
    if path.endswith("/chat/completions"):
        choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": texts[0]}}]
        return 200, {**frame, "object": "chat.completion", "choices": choices}, {}
    indexed = [{"index": place, "text": text, "finish_reason": "stop"} for place, text in enumerate(texts)]
    return 200, {**frame, "object": "text_completion", "choices": indexed[::-1]}, {}


def chat(content: object, **more: object) -> Reply:
    """Answer a chat with one message, which has `more` further keys."""
    message = {"role": "assistant", "content": content, **more}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return 200, {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}, {}


def refuse(status: int, message: str = "no", **headers: str) -> Reply:
    """Refuse with a status."""
    return status, {"error": {"message": message, "type": "invalid_request_error"}}, headers


@contextmanager
def endpoint_of(behave: Behave) -> Iterator[Endpoint]:
    """Run an endpoint; `behave` also gets how many requests came before."""
    endpoint = Endpoint(behave)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with endpoint.lock:
                number = len(endpoint.bodies)
                endpoint.bodies.append(body)
                endpoint.paths.append(self.path)
                endpoint.keys.append(self.headers["Authorization"])
                endpoint.headers.append(dict(self.headers.items()))
            self._reply(*endpoint.behave(self.path, body, number))

        def do_GET(self) -> None:
            with endpoint.lock:
                endpoint.got.append((self.path, self.headers["Authorization"]))
            if self.path in endpoint.pages:
                return self._reply(200, endpoint.pages[self.path], {})
            listed = endpoint.models if self.path.partition("?")[0].endswith("/models") else None
            return self._reply(404 if listed is None else 200, {"object": "list", "data": listed or []}, {})

        def _reply(self, status: int, reply: Body | bytes, headers: dict[str, str]) -> None:
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # It looks each 10 ms whether it shall end: by default its end takes up to half a second.
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield endpoint
        finally:
            server.shutdown()
