"""A stand-in for OpenAI's chat, files and batches over real HTTP, by the documented wire format; it counts prompts.

Its answer to a prompt depends on nothing but the prompt.
"""

import email
import email.policy
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass
class BatchProvider:
    """What the stand-in does, and what it has seen. A job is done after `looks` looks at its state."""

    looks: int = 1
    expires_after: int | None = None
    """A job answers so many requests, and then expires; None: it answers all. Only the first `expiring` jobs do."""
    expiring: int = 1
    fails: Callable[[str], tuple[int, str] | None] = lambda _: None
    """Returns the status and the message of the error for a prompt, or None."""
    untidy: bool = False
    """Results come in any order, some of them twice, and between lines that belong to no request."""
    refuses: str = ""
    """Why the provider refuses whole files."""
    taken: int = 0
    """The number of jobs that it takes before it refuses one."""
    queue: int | None = None
    """The most words of prompts in all jobs that have not ended: another job is refused as OpenAI does."""
    wrong_lines: Callable[[str], str] = lambda _: ""
    """Returns what is wrong with the line of a prompt, for which the provider refuses the whole file; or nothing."""
    busy: int = 0
    """So many requests for a job are rejected with status 429."""
    before_reply: Callable[[str], None] = lambda _: None
    """Called with the path of a request after it took effect and before its reply."""
    bodies: list[dict[str, Any]] | None = None
    """Gets the bodies of all requests, unless it is None."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each prompt was answered in a job."""
    chats: Counter[str] = field(default_factory=Counter)
    """How often each prompt was answered at once."""
    files: dict[str, bytes] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    """Jobs that are done at the next look."""
    looked: Counter[str] = field(default_factory=Counter)
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""

    @property
    def submitted(self) -> list[list[dict[str, Any]]]:
        """Return the requests of each job."""
        return [self._requests(job["input_file_id"]) for job in self.jobs.values()]

    def _requests(self, file: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files[file].split(b"\n") if line.strip()]

    def add_file(self, content: bytes) -> dict[str, Any]:
        """Keep a file."""
        name = f"file-{len(self.files) + 1}"
        self.files[name] = content
        return {"id": name, "object": "file", "bytes": len(content), "created_at": int(time.time()),
                "filename": "f.jsonl", "purpose": "batch", "status": "processed"}  # fmt: skip

    def add_job(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Make a job of a file."""
        name = f"batch_{len(self.jobs) + 1}"
        job = {"id": name, "object": "batch", "status": "validating", "created_at": int(time.time()),
               "endpoint": asked["endpoint"], "completion_window": asked["completion_window"],
               "input_file_id": asked["input_file_id"], "metadata": asked.get("metadata"),
               "expires_at": int(time.time()) + 86_400}  # fmt: skip
        self.jobs[name] = job
        return job

    def look(self, name: str) -> dict[str, Any] | None:
        """Return the state of a job, which goes on with each look."""
        job = self.jobs.get(name)
        if job is None or job["status"] in _ENDED:
            return job
        self.looked[name] += 1
        if job["status"] == "cancelling":
            self._end(job, "cancelled", 1)
        elif self.refuses and list(self.jobs).index(name) >= self.taken:
            job |= {"status": "failed", "errors": {"object": "list", "data": [{"code": "x", "message": self.refuses}]}}
        elif job["status"] == "validating" and (errors := self._errors(job)):
            job |= {"status": "failed", "errors": {"object": "list", "data": errors}}
        elif self.looked[name] < self.looks and name not in self.done:
            job["status"] = "in_progress"
        elif self.expires_after is not None and list(self.jobs).index(name) < self.expiring:
            self._end(job, "expired", self.expires_after)
        else:
            self._end(job, "completed", None)
        return job

    def _errors(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Return why a job is refused: a line is wrong, or the queue of its model is full."""
        requests = self._requests(job["input_file_id"])
        wrong = [(number, self.wrong_lines(_prompt(one["body"]))) for number, one in enumerate(requests, 1)]
        lines = [{"code": "invalid_value", "message": said, "param": "body.messages", "line": number}
                 for number, said in wrong if said]  # fmt: skip
        if lines or self.queue is None:
            return lines
        others = [one for one in self.jobs.values() if one["status"] == "in_progress"]
        words = sum(
            len(_prompt(request["body"]).split())
            for one in (*others, job)
            for request in self._requests(one["input_file_id"])
        )
        if words <= self.queue:
            job["status"] = "in_progress"
            return []
        said = (
            f"Enqueued token limit reached for gpt-test in organization org-x. Limit: {self.queue:,} enqueued tokens."
            " Please try again once some in_progress batches have been completed."
        )
        return [{"code": "token_limit_exceeded", "message": said, "param": None, "line": None}]

    def _end(self, job: dict[str, Any], status: str, most: int | None) -> None:
        good, bad = list[bytes](), list[bytes]()
        for number, request in enumerate(self._requests(job["input_file_id"])):
            line: dict[str, Any] = {"id": f"r{number}", "custom_id": request["custom_id"]}
            if most is not None and number >= most:
                line |= {"response": None, "error": {"code": f"batch_{status}", "message": f"the batch {status}"}}
                bad.append(json.dumps(line).encode())
                continue
            code, body = self.answer(request["body"], self.asked)
            line |= {"response": {"status_code": code, "request_id": "x", "body": body}, "error": None}
            (good if code == 200 else bad).append(json.dumps(line).encode())
        if self.untidy:
            stranger = {"id": "s", "custom_id": "999999", "response": {"status_code": 200, "body": {}}, "error": None}
            good += [*good[:3], json.dumps(stranger).encode(), b'{"custom_id": "7; DROP"}', b"not JSON", b""]
            random.Random(7).shuffle(good)  # noqa: S311 - any order
        job["status"] = status
        if good:
            job["output_file_id"] = self.add_file(b"\n".join(good))["id"]
        if bad:
            job["error_file_id"] = self.add_file(b"\n".join(bad) + b"\n")["id"]

    def answer(self, body: dict[str, Any], counted: Counter[str]) -> tuple[int, dict[str, Any]]:
        """Answer one chat."""
        if self.bodies is not None:
            self.bodies.append(body)
        prompt = _prompt(body)
        failure = self.fails(prompt)
        if failure is not None:
            return failure[0], {"error": {"message": failure[1], "type": "x", "param": None, "code": None}}
        counted[prompt] += 1
        chosen = int.from_bytes(blake2b(prompt.encode(), digest_size=4).digest())
        text = _text(body.get("response_format"), chosen)
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": 2, "total_tokens": len(prompt.split()) + 2}
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return 200, {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "usage": usage,
                     "choices": [choice]}  # fmt: skip


def _prompt(body: dict[str, Any]) -> str:
    return "\n".join(one["content"] for one in body["messages"])


def _text(form: dict[str, Any] | None, chosen: int) -> str:
    """Return an answer that keeps to a form, or a text."""
    if not form or form.get("type") != "json_schema":
        return f"text {chosen % 1000}"
    return json.dumps(_value(form["json_schema"]["schema"], chosen))


def _value(schema: dict[str, Any], chosen: int) -> Any:
    if "enum" in schema:
        return schema["enum"][chosen % len(schema["enum"])]
    match schema.get("type"):
        case "object":
            return {name: _value(one, chosen) for name, one in schema["properties"].items()}
        case "array":
            return [_value(schema["items"], chosen)]
        case "integer" | "number":
            return chosen % 10
        case "boolean":
            return chosen % 2 == 0
        case _:
            return f"text {chosen % 1000}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: BatchProvider

    def do_POST(self) -> None:
        """Take a file, a job, a cancel or a chat."""
        given, provider = self.rfile.read(int(self.headers["content-length"])), self.provider
        with provider.lock:
            if self.path == "/v1/files":
                reply = 200, provider.add_file(_uploaded(self.headers["content-type"], given))
            elif self.path == "/v1/batches" and provider.busy:
                provider.busy -= 1
                reply = 429, {"error": {"message": "Too many batches in progress", "code": "rate_limit_exceeded"}}
            elif self.path == "/v1/batches":
                reply = 200, provider.add_job(json.loads(given))
            elif self.path.endswith("/cancel"):
                job = provider.jobs[self.path.split("/")[-2]]
                job["status"] = job["status"] if job["status"] in _ENDED else "cancelling"
                reply = 200, job
            elif self.path == "/v1/chat/completions":
                reply = provider.answer(json.loads(given), provider.chats)
            else:
                reply = 404, {"error": {"message": f"no path {self.path}"}}
        provider.before_reply(self.path)
        self._reply(reply[0], json.dumps(reply[1]).encode())

    def do_GET(self) -> None:
        """Return a job, the list of jobs, the models, or the content of a file."""
        provider, path = self.provider, self.path.partition("?")[0]
        with provider.lock:
            if path == "/v1/models":
                found: Any = {"object": "list", "data": [{"id": "gpt-test", "object": "model", "owned_by": "x"}]}
            elif path == "/v1/batches":
                jobs = list(reversed(provider.jobs.values()))
                found = {"object": "list", "data": jobs, "has_more": False}
            elif path.startswith("/v1/batches/"):
                found = provider.look(path.split("/")[-1])
            else:
                found = provider.files.get(path.split("/")[-2])
        provider.before_reply(self.path)
        if isinstance(found, bytes):
            self._reply(200, found)
        elif found is None:
            self._reply(404, b'{"error": {"message": "not found"}}')
        else:
            self._reply(200, json.dumps(found).encode())

    def _reply(self, status: int, data: bytes) -> None:
        with suppress(OSError):  # a killed client
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Keep quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # else a burst of requests loses connections, and the engine counts each new try


def _uploaded(content_type: str, body: bytes) -> bytes:
    """Return the file of a form."""
    form = email.message_from_bytes(f"content-type: {content_type}\n\n".encode() + body, policy=email.policy.HTTP)
    for part in form.iter_parts():
        if part.get_filename():
            content = part.get_payload(decode=True)
            return content if isinstance(content, bytes) else b""
    return b""


@contextmanager
def batch_provider(**how: Any) -> Iterator[BatchProvider]:
    """Run a stand-in on a free port."""
    provider = BatchProvider(**how)
    handler = type("Handler", (_Handler,), {"provider": provider})
    with _Server(("127.0.0.1", 0), handler) as server:
        provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
