"""A visitor of the page without a browser."""

import http.client
import json
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import urlencode

from flightllm.config import HttpConfig

PASSWORD = "correct horse"
PAGE = HttpConfig("127.0.0.1:0", page=True)
Answer = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class Received:
    """A response that was read to its end; one that is not read keeps its socket."""

    status: int
    headers: Message
    body: bytes

    def getheader(self, name: str) -> str | None:
        """Return a header, or None."""
        value = self.headers[name]
        return None if value is None else str(value)

    def read(self) -> bytes:
        """Return the body."""
        return self.body


class Visitor:
    """A browser without a screen: keeps the cookie, and sends what the page's scripts send."""

    def __init__(self, page: str) -> None:
        self.host = page.partition("://")[2]
        self.cookie = ""

    def send(self, method: str, path: str, body: str | bytes | None, headers: dict[str, str]) -> "Received":
        """Send a request."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(method, path, body, {"connection": "close", "cookie": self.cookie, **headers})
        with connection.getresponse() as response:
            return Received(response.status, response.headers, response.read())

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for something."""
        response = self.send("GET", path, None, headers)
        return response.status, json.loads(response.read())

    def post(self, path: str, values: object = None, **headers: str) -> Answer:
        """Change something."""
        own = {"content-type": "application/json", "origin": f"http://{self.host}"}
        response = self.send("POST", path, json.dumps(values or {}), {**own, **headers})
        if set_cookie := response.getheader("set-cookie"):
            self.cookie = set_cookie.partition(";")[0]
        return response.status, json.loads(response.read())

    def upload(self, name: str, content: bytes, **headers: str) -> Answer:
        """Send a file."""
        own = {"content-type": "application/octet-stream", "origin": f"http://{self.host}"}
        response = self.send("POST", f"/api/files?{urlencode({'name': name})}", content, {**own, **headers})
        return response.status, json.loads(response.read())

    def run(self, sql: str, **values: object) -> list[dict[str, Any]]:
        """Run a statement and return its events."""
        own = {"content-type": "application/json", "origin": f"http://{self.host}"}
        response = self.send("POST", "/api/statements", json.dumps({"sql": sql, **values}), own)
        assert response.status == 200
        return [json.loads(line) for line in response.read().splitlines()]

    def rows(self, sql: str) -> list[list[str | None]]:
        """Run a query and return its rows."""
        events = self.run(sql)
        assert events[-1]["event"] == "end", events[-1]
        return [row for event in events if event["event"] == "rows" for row in event["rows"]]

    def error(self, sql: str) -> str:
        """Run a statement that fails and return what is said."""
        event = self.run(sql)[-1]
        assert event["event"] == "error"
        return str(event["message"])
