"""A model's endpoint in a process of its own that bills as a hosted provider does, with a prefix cache by its rules.

It counts tokens with a tokenizer that models have, or by a rule of its own, and answers right in form. `GET /bill`
returns the dollars so far, and the tokens: of prompts, found, stored, and of answers.
"""

import json
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from socket import create_server
from typing import Any
from zlib import crc32

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
    """Only starts that end at a mark are stored and found: OpenAI's rules from GPT-5.6 on."""
    units: bool = False
    """Only whole prompts are found again, and starts that two earlier prompts had in common: DeepSeek's rules."""
    refuses: str = ""
    """The keys of a request that the endpoint does not know, between commas."""
    texts_only: bool = False
    """The endpoint takes no messages in parts."""
    key: bool = False
    """Only requests with a `prompt_cache_key` are stored."""
    report: str = "openai"
    usage: str = "right"
    """`right`, `none` or `zeros`."""
    fails: int = 0
    """Every so many requests, the answer is lost at a gateway after the work was done; 0: none."""
    tokenizer: str = ""
    """The file of a tokenizer; empty: a rule of its own."""
    around: tuple[int, int, int] = (0, 2, 0)
    """Tokens for each prompt, for each message, and for each answer, beside the texts."""
    schema: bool = False
    """Whether a schema counts as the start of the prompt."""
    words: int = 0
    """How many words a free text has; 0: a sentence, or what the prompt asks for."""


class Provider:
    """The state of the endpoint: what is stored, and what was billed."""

    def __init__(self, billing: Billing) -> None:
        self.billing = billing
        self.lock = threading.Lock()
        self.stored: dict[int, float] = {}
        self.seen: set[int] = set()
        self.dollars = 0.0
        self.requests = 0
        self.tokens = [0, 0, 0, 0]
        """Of prompts, found, stored, and of answers."""
        self._pieces: Callable[[str], list[Any]] = _PIECE.findall
        if billing.tokenizer:
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_file(billing.tokenizer)
            self._pieces = lambda text: tokenizer.encode(text, add_special_tokens=False).ids

    def _prompt(self, body: dict[str, Any]) -> tuple[list[Any], list[int]]:
        """Return the tokens of a prompt, with signs for those around the texts, and the ends of its marked parts."""
        prompt, message, _ = self.billing.around
        schema = body.get("response_format", {}).get("json_schema")
        told = json.dumps(schema, separators=(",", ":")) if schema and self.billing.schema else ""
        pieces, marked = [*self._pieces(told), *["#"] * prompt], []
        for one in body["messages"]:
            pieces += ["<"] * message
            parts = one["content"] if isinstance(one["content"], list) else [{"type": "text", "text": one["content"]}]
            for part in parts:
                pieces += self._pieces(part["text"])
                if part.get("prompt_cache_breakpoint") == {"mode": "explicit"}:
                    marked.append(len(pieces))
        return pieces, marked

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return status and body of an answer, and bill it."""
        billing = self.billing
        pieces, marked = self._prompt(body)
        if billing.texts_only and any(isinstance(one["content"], list) for one in body["messages"]):
            return 400, {"error": {"message": "messages.content: Input should be a valid string"}}
        refused = next((name for name in billing.refuses.split(",") if name and name in body), "")
        if refused:
            return 400, {"error": {"message": f"Unrecognized request argument supplied: {refused}"}}
        options = body.get("prompt_cache_options", {})
        if options and not billing.whole:
            return 400, {"error": {"message": "prompt_cache_options is not supported with this model"}}
        implicit = options.get("mode", "implicit") == "implicit"
        keyed = not billing.key or "prompt_cache_key" in body
        ends = list(range(billing.floor, len(pieces), billing.step))
        if billing.whole:
            ends = [*marked[-3:], len(pieces)] if implicit else marked[-4:]
        marks = {end: hash((body.get("prompt_cache_key"), *pieces[:end])) for end in ends if end >= billing.floor}
        with self.lock:
            known = [end for end, mark in marks.items() if time.time() - self.stored.get(mark, -1e9) < billing.seconds]
        cached = max(known, default=0) if keyed else 0
        text = _text(body, billing.words)
        most = body.get("max_completion_tokens") or body["max_tokens"]
        answered = len(self._pieces(text)) + billing.around[2]
        reason = "length" if answered > most else "stop"
        threading.Event().wait(0.01)  # a prompt is stored when its answer begins, and requests overlap
        if answered > most:
            text, answered = text[: 3 * most], most
        written = max(0, max(marks, default=0) - cached) if billing.write else 0
        with self.lock:
            if keyed:
                self.stored |= dict.fromkeys(self._kept(marks), time.time())
            self.requests += 1
            lost = billing.fails and self.requests % billing.fails == 0
            self.dollars += (len(pieces) - cached - written) * billing.input / 1e6
            self.dollars += (cached * billing.read + written * billing.write + answered * billing.output) / 1e6
            parts = (len(pieces), cached, written, answered)
            self.tokens = [sum(pair) for pair in zip(self.tokens, parts, strict=True)]
        if lost:
            return 504, {"error": {"message": "the gateway did not wait"}}
        choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
        return 200, {"id": "1", "choices": [choice], **self._usage(len(pieces), cached, written, answered)}

    def _kept(self, marks: dict[int, int]) -> list[int]:
        """Return the marks of the starts that are stored; the caller holds the lock."""
        if not self.billing.units:
            return list(marks.values())
        ends = sorted(marks)
        common = [marks[end] for end in takewhile(lambda end: marks[end] in self.seen, ends)]
        self.seen.update(marks.values())
        return [*common[-1:], *(marks[end] for end in ends[-1:])]

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


def _text(body: dict[str, Any], words: int) -> str:
    """Return a label, a number or an object of the request's schema or words, else a text."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    said = body["messages"][-1]["content"]
    prompt = said if isinstance(said, str) else "".join(part["text"] for part in said)
    if not schema and (told := re.search(r"JSON Schema: (.*)$|by this schema: (.*)$", prompt, re.DOTALL)):
        schema = json.loads(told[1] or told[2])
    if schema:
        return json.dumps(_value(schema, crc32(prompt.encode())), ensure_ascii=False)
    if "regular expression" in prompt:
        return "7"
    told = re.search(r"one of these(?: texts| and nothing else)?: (.*)\.$", prompt)
    if told:
        options = json.loads(f"[{told[1]}]")
        label = options[crc32(prompt.encode()) % len(options)]
        return json.dumps({"answer": label}) if "response_format" in body else str(label)
    if words:
        return " ".join(f"{_ANSWER} ".split()[place % 20] for place in range(words))
    if re.search(r"[Tt]ranslate|[Cc]orrect|grammar", prompt):
        return str(prompt).splitlines()[-1]
    return _ANSWER


def _value(schema: dict[str, Any], chosen: int) -> Any:
    """Return a value that follows a schema; `chosen` picks among what it allows."""
    if "enum" in schema:
        return schema["enum"][chosen % len(schema["enum"])]
    kinds = schema.get("type", "string")
    match next(one for one in ([kinds] if isinstance(kinds, str) else kinds) if one != "null"):
        case "object":
            return {name: _value(one, chosen) for name, one in schema["properties"].items()}
        case "array":
            return [_value(schema["items"], chosen)]
        case "integer" | "number":
            return chosen % 100
        case "boolean":
            return chosen % 2 == 0
        case _:
            return ("a broken lamp", "two days", "the shop")[chosen % 3]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider

    def do_POST(self) -> None:
        """Answer a chat."""
        self._reply(*self.provider.answer(json.loads(self.rfile.read(int(self.headers["content-length"])))))

    def do_GET(self) -> None:
        """Return the bill."""
        provider = self.provider
        self._reply(200, {"dollars": provider.dollars, "requests": provider.requests, "tokens": provider.tokens})

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
        return float(self.bill()["dollars"])

    def bill(self) -> dict[str, Any]:
        """Return what it has billed so far, in dollars and in tokens."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/bill") as answer:
            found: dict[str, Any] = json.load(answer)
        return found


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
