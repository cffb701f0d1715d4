"""A model's endpoint in a process of its own that bills as a hosted provider does, with a prefix cache by its rules.

It counts tokens by a rule of its own, and answers right in form. `GET /bill` returns the dollars so far.
"""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import create_server
from typing import Any

_PIECE = re.compile(r"\w{1,6}|[^\w\s]+")
_ANSWER = "It is a short and plain text that says what was asked for, in a few words and no more."


@dataclass(frozen=True)
class Billing:
    """A provider's published rules: tokens of the cache, dollars per million tokens, and names of its report."""

    floor: int
    step: int
    seconds: float
    input: float
    read: float
    output: float
    write: float = 0.0
    """0: storing costs nothing."""
    whole: bool = False
    """Only whole messages are found again."""
    key: bool = False
    """Only requests with a `prompt_cache_key` are stored."""
    report: str = "openai"
    usage: str = "right"
    """`right`, `none` or `zeros`."""
    fails: int = 0
    """Every so many requests, the answer is lost at a gateway after the work was done; 0: none."""


class Provider:
    """The state of the endpoint: what is stored, and what was billed."""

    def __init__(self, billing: Billing) -> None:
        self.billing = billing
        self.lock = threading.Lock()
        self.stored: dict[int, float] = {}
        self.dollars = 0.0
        self.requests = 0

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of an answer, and bill it."""
        billing = self.billing
        pieces = [piece for one in body["messages"] for piece in ["<", *_PIECE.findall(one["content"]), ">"]]
        keyed = not billing.key or "prompt_cache_key" in body
        ends = [len(pieces)] if billing.whole else range(billing.floor, len(pieces), billing.step)
        marks = {end: hash((body.get("prompt_cache_key"), *pieces[:end])) for end in ends if end >= billing.floor}
        with self.lock:
            known = [end for end, mark in marks.items() if time.time() - self.stored.get(mark, -1e9) < billing.seconds]
        cached = max(known, default=0) if keyed else 0
        text = _text(body)
        most = body.get("max_completion_tokens") or body["max_tokens"]
        words = _PIECE.findall(text)
        reason = "length" if len(words) > most else "stop"
        threading.Event().wait(0.01)  # a prompt is stored when its answer begins, and requests overlap
        if len(words) > most:
            text, words = " ".join(words[:most]), words[:most]
        written = len(pieces) - cached if billing.write and len(pieces) >= billing.floor else 0
        with self.lock:
            if keyed:
                self.stored |= dict.fromkeys(marks.values(), time.time())
            self.requests += 1
            lost = billing.fails and self.requests % billing.fails == 0
            self.dollars += (len(pieces) - cached - written) * billing.input / 1e6
            self.dollars += (cached * billing.read + written * billing.write + len(words) * billing.output) / 1e6
        if lost:
            return 504, {"error": {"message": "the gateway did not wait"}}
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
        return 200, {"id": "1", "choices": [choice], **self._usage(len(pieces), cached, written, len(words))}

    def _usage(self, prompt: int, cached: int, written: int, answer: int) -> dict[str, Any]:
        if self.billing.usage != "right":
            zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
            return {"usage": zeros} if self.billing.usage == "zeros" else {}
        usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
        match self.billing.report:
            case "deepseek":
                usage |= {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": prompt - cached}
            case "anthropic":
                usage |= {"prompt_tokens_details": None, "completion_tokens_details": None}
            case _:
                usage |= {"prompt_tokens_details": {"cached_tokens": cached}}
                if written:
                    usage["prompt_tokens_details"]["cache_write_tokens"] = written
        return {"usage": usage}


def _text(body: dict[str, Any]) -> str:
    """Return a label of the request's schema or words, else a text."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    prompt = body["messages"][-1]["content"]
    found = schema.get("properties", {}).get("answer", {}).get("enum")
    if found:
        return json.dumps({"answer": found[len(prompt) % len(found)]})
    if "regular expression" in prompt:
        return "7"
    told = re.search(r"one of these(?: texts| and nothing else)?: (.*)\.$", prompt)
    if told:
        options = json.loads(f"[{told[1]}]")
        label = options[len(prompt) % len(options)]
        return json.dumps({"answer": label}) if "response_format" in body else str(label)
    return _ANSWER


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider

    def do_POST(self) -> None:
        """Answer a chat."""
        self._reply(*self.provider.answer(json.loads(self.rfile.read(int(self.headers["content-length"])))))

    def do_GET(self) -> None:
        """Return the bill."""
        self._reply(200, {"dollars": self.provider.dollars, "requests": self.provider.requests})

    def _reply(self, status: int, document: dict[str, Any]) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


@dataclass(frozen=True)
class Running:
    """A running endpoint."""

    port: int

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def dollars(self) -> float:
        """Return what it has billed so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/bill") as answer:
            return float(json.load(answer)["dollars"])


@contextmanager
def billing_endpoint(billing: Billing) -> Iterator[Running]:
    """Run an endpoint that bills like this."""
    with create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.billing_endpoint", str(port), json.dumps(asdict(billing))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is not None:
                process.stdout.readline()
            yield Running(port)
        finally:
            process.kill()


if __name__ == "__main__":
    _Handler.provider = Provider(Billing(**json.loads(sys.argv[2])))
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler) as server:
        print("ready", flush=True)  # noqa: T201 - the parent waits for it
        server.serve_forever()
