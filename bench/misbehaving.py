"""An HTTP endpoint of one kind of misbehaviour, in a process of its own: `python -m bench.misbehaving NAME`.

The process prints its port. A GET of `/begin` starts its clock and its counters again, and `/asked` returns how many
requests named a row, and how many did not.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, Final

SECONDS: Final = 0.05
"""The time that the endpoint takes for an answer."""
MOST_AT_ONCE: Final = 64
Reply = tuple[int, Any]
CLOSED: Final[Reply] = (0, None)
"""In place of a reply: the connection ends."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of misbehaviour."""

    name: str
    bad: Callable[[Endpoint, str, Mapping[str, Any]], Reply | None] = lambda *_: None
    """Return the reply to a prompt and its request's body, or None for a usual answer."""
    slots: int = MOST_AT_ONCE
    """The requests that are answered at the same time."""
    rate: float = 0.0
    """The requests in a second that are not refused; 0: all."""
    lost: int = 0
    """The rows of each user that can have no answer."""
    cold_seconds: float = 0.0
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The options of the model in SQL."""

    def best_seconds(self, answered: int) -> float:
        """Return the fewest seconds that the endpoint needs for this number of rows."""
        by_rate = max(0.0, answered - self.rate) / self.rate if self.rate else 0.0
        return self.cold_seconds + max(answered * SECONDS / self.slots, by_rate, SECONDS)


class Endpoint:
    """The state of a running endpoint."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.lock = threading.Lock()
        self._slots = threading.Semaphore(kind.slots)
        self.begin()

    def begin(self) -> None:
        """Start the clock and the counters again."""
        self.began = self._filled = time.monotonic()
        self.asked = self.asked_aside = 0
        self._left = self.kind.rate
        self.chance = random.Random(0)  # noqa: S311 - a seed makes each run the same

    def reply(self, body: Mapping[str, Any]) -> Reply:
        """Return the reply to a request."""
        prompt = str(body["messages"][-1]["content"])
        with self.lock:
            if "ROW" in prompt:
                self.asked += 1
            else:
                self.asked_aside += 1
        if not self._is_allowed():
            return _error(429, "Rate limit reached for requests")
        if (bad := self.kind.bad(self, prompt, body)) is not None:
            return bad
        if not self._slots.acquire(timeout=float(str(self.kind.options.get("timeout", 60)))):
            return _error(500, "the client has left")
        try:
            time.sleep(SECONDS)
        finally:
            self._slots.release()
        return 200, answer(f"ans {prompt[-12:]}")

    def _is_allowed(self) -> bool:
        """Take one request from what the rate still allows; a second's requests can come at once."""
        if not self.kind.rate:
            return True
        with self.lock:
            now = time.monotonic()
            self._left = min(self.kind.rate, self._left + (now - self._filled) * self.kind.rate)
            self._filled = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


def answer(text: str | None, **more: object) -> Mapping[str, object]:
    """Return the body of an answer; `more` are further keys of its message."""
    message = {"role": "assistant", "content": text, **more}
    usage = {"prompt_tokens": 20, "completion_tokens": 4, "total_tokens": 24}
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], "usage": usage}


def _error(status: int, text: str) -> Reply:
    return status, {"error": {"message": text}}


def _of_row(reply: Reply) -> Callable[[Endpoint, str, Mapping[str, Any]], Reply | None]:
    return lambda _, prompt, __: reply if "ROW7." in prompt else None


def _of_every_tenth(reply: Reply) -> Callable[[Endpoint, str, Mapping[str, Any]], Reply | None]:
    def bad(endpoint: Endpoint, _: str, __: Mapping[str, Any]) -> Reply | None:
        with endpoint.lock:
            return reply if endpoint.chance.random() < 0.1 else None

    return bad


def _loading(endpoint: Endpoint, _: str, __: Mapping[str, Any]) -> Reply | None:
    ready = time.monotonic() > endpoint.began + endpoint.kind.cold_seconds
    return None if ready else _error(503, "Model is currently loading")


def _late(_: Endpoint, prompt: str, __: Mapping[str, Any]) -> Reply | None:
    if "ROW7." in prompt:
        time.sleep(3)
    return None


def _without_system(_: Endpoint, __: str, body: Mapping[str, Any]) -> Reply | None:
    if body["messages"][0]["role"] in {"system", "developer"}:
        return _error(400, "System role not supported")
    return None


KINDS: Final = (
    Kind("well-behaved"),
    Kind("one row is too large (429)", _of_row(_error(429, "Request too large: Limit 30000, Requested 45123")), lost=1),
    Kind("one row has no worker (503)", _of_row(_error(503, "no healthy worker")), lost=1),
    Kind("one row is moderated (403)", _of_row(_error(403, "flagged by moderation")), lost=1),
    Kind("one row is always too late", _late, lost=1, options=MappingProxyType({"timeout": 1.0})),
    Kind("every tenth request fails (500)", _of_every_tenth(_error(500, "internal error"))),
    Kind("every tenth connection ends", _of_every_tenth(CLOSED)),
    Kind("every tenth body is an error (200)", _of_every_tenth((200, {"error": {"message": "upstream error"}}))),
    Kind("every tenth body is empty", _of_every_tenth((200, None))),
    Kind("no system role (400)", _without_system),
    Kind("20 requests a second (429)", rate=20),
    Kind("one slot, timeout of 2 s", slots=1, options=MappingProxyType({"timeout": 2.0})),
    Kind("cold for 10 s (503)", _loading, cold_seconds=10),
)
"""A well-behaved endpoint, and 12 kinds of misbehaviour."""


def serve(kind: Kind) -> None:
    """Print the port of an endpoint, and serve until the process is killed."""
    endpoint = Endpoint(kind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, body = endpoint.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if status:
                self._send(status, body)
            else:
                self.close_connection = True

        def do_GET(self) -> None:
            if self.path == "/begin":
                endpoint.begin()
            known = self.path in {"/begin", "/asked"}
            self._send(200 if known else 404, [endpoint.asked, endpoint.asked_aside] if known else {})

        def _send(self, status: int, body: object) -> None:
            data = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(next(kind for kind in KINDS if kind.name == sys.argv[1]))
