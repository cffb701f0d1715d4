"""An HTTP endpoint of OpenAI's chat completions at which the labelled model answers, in a process of its own.

    python -m bench.sembench.endpoint FOLDER [--error 0.05] [--independent] [--seed 0]

FOLDER has SemBench's Movies.csv and Reviews.csv. The process prints its port. A GET of `/begin` starts its counters
again, and `/counted` returns them. Like vLLM, the server knows `structured_outputs` and returns log probabilities. Its
prefix cache has blocks of 16 tokens, and never ends.
"""

from __future__ import annotations

import argparse
import json
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from bench.bill.caches import Automatic
from bench.bill.prompt import Block, Template, build
from bench.bill.tokens import tokenizer
from bench.sembench.errors import Errors
from bench.sembench.labels import reviews, table
from bench.sembench.model import Answer, LabelledModel, said
from bench.sembench.texts import Texts

MODEL: Final = "labels"
_BLOCK: Final = 16
_TEMPLATE: Final = Template(message=3, answer=3)
_LEAST: Final = 1e-6
"""The smallest probability of an option: a logarithm needs one above 0."""
Reply = tuple[int, Any]


@dataclass(slots=True)
class Counted:
    """The counters since the last begin; `sample` is a prompt that no reader could read."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    unread: int = 0
    sample: str = ""


class Endpoint:
    """The state of a running endpoint. Thread-safe."""

    def __init__(self, model: LabelledModel) -> None:
        self._model = model
        self._lock = threading.Lock()
        self.tokenizer, self._tokenize = tokenizer("gemini")
        self.begin()

    def begin(self) -> None:
        """Start the counters again, with an empty prefix cache."""
        self.counted = Counted()
        self._cache = Automatic(floor=_BLOCK, step=_BLOCK, seconds=math.inf)

    def get(self, path: str) -> Reply:
        """Reply to a GET."""
        match path.rpartition("/")[2]:
            case "begin":
                self.begin()
                return 200, {}
            case "counted":
                return 200, {**asdict(self.counted), "tokenizer": self.tokenizer}
            case "models":
                return 200, {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "bench"}]}
            case _:
                return 404, {"error": {"message": f"no such path: {path}"}}

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Answer a chat completion, and count it."""
        if not path.endswith("/chat/completions"):
            return 404, {"error": {"message": f"no such path: {path}"}}
        answer = self._model.answer(body)
        texts = [said(message) for message in body["messages"]]
        prompt = build([Block(text, ends_message=True) for text in texts], _TEMPLATE, self._tokenize)
        length = len(self._tokenize(answer.text)) + 1
        with self._lock:
            now = time.monotonic()
            cached = self._cache.arrive(prompt, now).read
            self._cache.begin(prompt, now)
            counted = self.counted
            counted.calls += 1
            counted.prompt_tokens += len(prompt.tokens)
            counted.cached_tokens += cached
            counted.completion_tokens += length
            if answer.unread:
                counted.unread += 1
                counted.sample = counted.sample or "\n\n".join(texts)
        return 200, _completion(answer, body, len(prompt.tokens), cached, length)


def _completion(answer: Answer, body: Mapping[str, Any], tokens: int, cached: int, length: int) -> Mapping[str, Any]:
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": answer.text},
        "logprobs": None,
    }
    if body.get("logprobs") and answer.chances:
        choice["logprobs"] = {"content": [_token(answer, int(body.get("top_logprobs") or 1))]}
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": length,
        "total_tokens": tokens + length,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return {"id": "1", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}


def _token(answer: Answer, most: int) -> Mapping[str, Any]:
    ranked = sorted(answer.chances.items(), key=lambda one: -one[1])[:most]
    listed = [_of_token(option, chance) for option, chance in ranked]
    return {**_of_token(answer.text, answer.chances[answer.text]), "top_logprobs": listed}


def _of_token(text: str, chance: float) -> dict[str, Any]:
    return {"token": text, "logprob": math.log(max(chance, _LEAST)), "bytes": list(text.encode())}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """A client that opens more connections than the queue has waits a second for each of the others."""


@contextmanager
def listening(model: LabelledModel) -> Iterator[tuple[Endpoint, ThreadingHTTPServer]]:
    """Open a server on a free port of this machine."""
    endpoint = Endpoint(model)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            self._send(*endpoint.post(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

        def do_GET(self) -> None:
            self._send(*endpoint.get(self.path))

        def _send(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with _Server(("127.0.0.1", 0), Handler) as server:
        yield endpoint, server


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder with Reviews.csv")
    parser.add_argument("--error", type=float, default=0.0, help="the chance of a wrong answer (default: 0)")
    parser.add_argument("--independent", action="store_true", help="each prompt errs by itself, whatever its review")
    parser.add_argument("--seed", type=int, default=0, help="which answers are wrong (default: 0)")
    given = parser.parse_args(arguments)
    known = reviews(table(given.folder / "Reviews.csv"))
    errors = Errors(given.error, given.seed, independent=given.independent)
    with listening(LabelledModel(Texts(known), errors)) as (_, server):
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
