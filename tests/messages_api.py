"""A loopback server with the documented rules of Anthropic's Messages API: what it rejects, caches and bills."""

import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

import rstr

from tests import message_batches
from tests.message_batches import MessageBatches

Body = dict[str, Any]
Reply = tuple[int, Body | bytes, dict[str, str]]
FIELDS = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "temperature", "top_p", "top_k", "stop_sequences", "stream"),
        *("metadata", "thinking", "tools", "tool_choice", "output_config", "service_tier", "cache_control"),
    }
)
FLOORS = {"claude-haiku-4-5": 4_096, "claude-opus-4-7": 2_048, "claude-opus-5-5": 512}
"""Some documented floors; other models have 1,024."""
SECONDS = 300.0
UNSUPPORTED = frozenset({"maxLength", "minLength", "minimum", "maximum", "maxItems", "multipleOf", "uniqueItems"})
LOOK_BACK = 20


class RefusedError(Exception):
    """A rejection of a request with a status and the API's words."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.reply: Reply = status, {"type": "error", "error": {"type": kind, "message": message}}, {}


def invalid(message: str) -> RefusedError:
    """Return a rejection of the form of a request."""
    return RefusedError(400, "invalid_request_error", message)


def count(text: str) -> int:
    """Count the tokens of a text: pieces of words, of numbers, and marks."""
    words = re.findall(r"[A-Za-z]+", text)
    others = re.findall(r"\d{1,3}|[^\sA-Za-z\d]{1,3}", text)
    return sum(1 + (len(word) > 9) for word in words) + len(others)


def words(text: str) -> Reply:
    """Return a reply that has only a text."""
    return message([{"type": "text", "text": text}])


def message(content: object, stop: str = "end_turn", **more: object) -> Reply:
    """Return a reply with these blocks and a usage that suits every prompt."""
    usage = {"input_tokens": 40, "output_tokens": 4}
    frame = {"id": "msg_1", "type": "message", "role": "assistant", "model": "any", "usage": usage}
    return 200, {**frame, "content": content, "stop_reason": stop, "stop_sequence": None, **more}, {}


@dataclass
class MessagesApi:
    """The server's state. `behave` can reply in place of the rules; `say` writes the text of an answer."""

    behave: Callable[[Body, int], Reply | None] = lambda _body, _number: None
    say: Callable[[Body], str] = lambda _: "fine"
    seconds: float = 0.005
    """How long each answer takes."""
    url: str = ""
    bodies: list[Body] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    bills: list[dict[str, int]] = field(default_factory=list)
    kept: dict[tuple[str, ...], float] = field(default_factory=dict)
    """The starts in the cache, as their blocks; each with the time of its last use."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    clock: Callable[[], float] = time.monotonic
    batches: MessageBatches = field(default_factory=MessageBatches)
    before_reply: Callable[[str, str], None] = lambda _method, _path: None
    """Called with a request after it took effect and before its reply."""
    context: int = 200_000
    """The most tokens of a prompt."""

    batch_kept: dict[tuple[str, ...], float] = field(default_factory=dict)
    """The starts in the cache of batches, which is another one; each with the time until it stays."""
    batch_new: dict[tuple[str, ...], float] = field(default_factory=dict)
    """The starts that the requests of the batch that runs store: they run together, and do not see these."""

    def __post_init__(self) -> None:
        self.batches.after_end = self._end_batch

    def _end_batch(self) -> None:
        self.batch_kept |= self.batch_new
        self.batch_new.clear()

    def reply(self, body: Body, headers: dict[str, str], *, batched: bool = False) -> Reply:
        """Answer one request."""
        with self.lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.headers.append(headers)
        if (own := self.behave(body, number)) is not None:
            return own
        try:
            check(body, headers)
            if (tokens := sum(map(count, parts(body)[0]))) > self.context:
                raise invalid(f"prompt is too long: {tokens} tokens > {self.context} maximum")
        except RefusedError as refused:
            with self.lock:
                self.refused.append(str(refused))
            return refused.reply
        with self.lock:
            usage, starts = self._usage(body, self._batch_starts() if batched else self.kept)
        time.sleep(self.seconds)  # noqa: TID251 -- an answer takes a while
        reply = self._answer(body)
        usage["output_tokens"] = sum(count(one.get("text") or json.dumps(one.get("input"))) for one in reply) + 2
        with self.lock:
            now = self.clock()
            if batched:
                self.batch_new |= dict.fromkeys(starts, now + (3_600.0 if hour(body) else SECONDS))
            else:
                self.kept |= dict.fromkeys(starts, now)  # a start is there once its answer is
            self.bills.append(usage)
        stop = "tool_use" if reply[-1]["type"] == "tool_use" else "end_turn"
        told = {name: value for name, value in usage.items() if name != "hour"}
        hours, minutes = usage["hour"], usage["cache_creation_input_tokens"] - usage["hour"]
        split = {"ephemeral_1h_input_tokens": hours, "ephemeral_5m_input_tokens": minutes}
        return 200, {**message(reply, stop)[1], "usage": {**told, "cache_creation": split}}, {}  # type: ignore[dict-item]

    def _batch_starts(self) -> dict[tuple[str, ...], float]:
        """Return the starts that a batch can read, with the time of their use as the cache of requests has it."""
        now = self.clock()
        return {start: now for start, until in self.batch_kept.items() if until > now}

    def _usage(self, body: Body, kept: dict[tuple[str, ...], float]) -> tuple[dict[str, int], list[tuple[str, ...]]]:
        """Return what a request reads, writes and computes, and the starts to keep."""
        blocks, marks = parts(body)
        floor = FLOORS.get(body["model"], 1_024)
        latest = self.clock() - SECONDS
        read: tuple[str, ...] = ()
        for mark in marks:
            for end in range(mark, max(0, mark - LOOK_BACK), -1):
                start = tuple(blocks[:end])
                if kept.get(start, 0.0) > latest and len(start) > len(read):
                    read = start
        if read:
            kept[read] = self.clock()
        found = sum(map(count, read))
        total = sum(map(count, blocks)) + 9
        starts = [tuple(blocks[:mark]) for mark in marks if sum(map(count, blocks[:mark])) >= floor]
        most = max((sum(map(count, start)) for start in starts), default=0)
        written = max(0, most - found)
        usage = {
            "input_tokens": total - found - written,
            "cache_read_input_tokens": found,
            "cache_creation_input_tokens": written,
            "hour": written if hour(body) else 0,
        }
        return usage, [start for start in starts if len(start) > len(read)]

    def _answer(self, body: Body) -> list[Body]:
        form = body.get("output_config", {}).get("format")
        if form is not None:
            return [{"type": "text", "text": json.dumps(instance(form["schema"], self.say(body)))}]
        if "tool_choice" in body:
            [tool] = body["tools"]
            given = instance(tool["input_schema"], self.say(body))
            return [{"type": "tool_use", "id": "toolu_1", "name": tool["name"], "input": given}]
        return [{"type": "text", "text": self.say(body)}]

    def price(self, input_: float, output: float) -> float:
        """Return the bill in dollars at prices per million tokens."""
        rates = {
            "input_tokens": input_,
            "cache_read_input_tokens": input_ / 10,
            "cache_creation_input_tokens": input_ * 1.25,
            "hour": input_ * 0.75,
            "output_tokens": output,
        }
        return sum(one[name] * rate for one in self.bills for name, rate in rates.items()) / 1e6

    def uncached(self, input_: float, output: float) -> float:
        """Return what the same requests cost without any cache."""
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        tokens = sum(one[name] for one in self.bills for name in names)
        return (tokens * input_ + sum(one["output_tokens"] for one in self.bills) * output) / 1e6

    def total(self, name: str) -> int:
        """Return the sum of one kind of tokens over all answers."""
        return sum(one[name] for one in self.bills)


def instance(schema: Body, text: str) -> Any:
    """Return a value that follows a schema: the text where it fits."""
    match schema:
        case {"enum": [*options]}:
            return text if text in options else options[0]
        case {"pattern": str(pattern)}:
            return rstr.Rstr(Random(text)).xeger(pattern)  # noqa: S311 - the answers of a stand-in
        case {"anyOf": [first, *_]}:
            return instance(first, text)
        case {"type": "object"}:
            return {name: instance(one, text) for name, one in schema.get("properties", {}).items()}
        case {"type": "array"}:
            return [instance(schema["items"], text)]
        case {"type": "integer" | "number"}:
            return 7
        case {"type": "boolean"}:
            return True
        case _:
            return text


def hour(body: Body) -> bool:
    """Return whether a request keeps its starts for an hour."""
    return '"ttl": "1h"' in json.dumps([body.get("system"), body["messages"]])


def parts(body: Body) -> tuple[list[str], list[int]]:
    """Return a request's blocks in the order of the cache, and how many blocks each breakpoint covers."""
    read = [body.get("output_config", {}).get("format"), body.get("tools")]
    other = "".join(f"{body.get(name)}" for name in ("model", "tool_choice", "thinking"))
    found = [json.dumps([one for one in read if one])] if any(read) else []
    found.append(" " * (zlib.crc32(other.encode()) % 997))  # these change what the cache knows, and have no tokens
    marks = []
    spoken = [body.get("system") or [], *(one["content"] for one in body["messages"])]
    for content in spoken:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            found.append(block["text"])
            if "cache_control" in block:
                marks.append(len(found))
    return found, marks


def check(body: Body, headers: dict[str, str]) -> None:
    """Reject a request that breaks a documented rule."""
    if not headers.get("x-api-key"):
        raise RefusedError(401, "authentication_error", "x-api-key header is required")
    if not headers.get("anthropic-version"):
        raise invalid("anthropic-version: header is required")
    for name in body:
        if name not in FIELDS:
            raise invalid(f"{name}: Extra inputs are not permitted")
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        raise invalid("max_tokens: Field required")
    check_messages(body)
    check_sampling(body)
    check_form(body)


def check_messages(body: Body) -> None:
    """Reject messages and blocks that the API does not take."""
    roles = [one["role"] for one in body.get("messages", [])]
    if not roles or roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        raise invalid("messages: roles must alternate between user and assistant, and begin with user")
    marked = 0
    for content in (body.get("system", "none"), *(one["content"] for one in body["messages"])):
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if not block["text"]:
                raise invalid("messages: text content blocks must be non-empty")
            if not block["text"].strip():
                raise invalid("messages: text content blocks must contain non-whitespace text")
            if block.keys() - {"type", "text", "cache_control"}:
                raise invalid("messages.0.content.0: Extra inputs are not permitted")
            control: Any = block.get("cache_control", {})
            if control.get("ttl", "5m") not in {"5m", "1h"}:
                raise invalid("messages.0.content.0.cache_control.ttl: Input should be '5m' or '1h'")
            marked += "cache_control" in block
    if marked > 4:
        raise invalid(f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")


def version(body: Body) -> float:
    """Return the version in the name of a model, such as 4.5."""
    found = re.search(r"-(\d)(?:-(\d{1,2}))?(?!\d)", body["model"])
    return float(f"{found[1]}.{found[2] or 0}") if found else 0.0


def check_sampling(body: Body) -> None:
    """Reject sampling and thinking that the model does not take."""
    thinking = body.get("thinking", {})
    if not 0 <= body.get("temperature", 0) <= 1:
        raise invalid("temperature: range: 0..1")
    for name in ("temperature", "top_p", "top_k"):
        if name in body and version(body) >= 4.7:
            raise invalid(f"`{name}` is deprecated for this model.")
    if {"temperature", "top_p"} <= body.keys():
        raise invalid("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    check_thinking(body, thinking)


def check_thinking(body: Body, thinking: Body) -> None:
    """Reject thinking that the model does not take."""
    if thinking.get("type") == "enabled":
        if version(body) >= 4.7:
            raise invalid('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".')
        if not 1_024 <= thinking["budget_tokens"] < body["max_tokens"]:
            raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if thinking.get("type") == "adaptive" and version(body) < 4.6:
        raise invalid("adaptive thinking is not supported on this model")
    if thinking.get("type") == "disabled" and version(body) >= 5.5:
        raise invalid('"thinking.type.disabled" is not supported for this model.')
    if thinking and thinking["type"] != "disabled" and "temperature" in body:
        raise invalid("`temperature` may only be set to 1 when thinking is enabled.")


def check_form(body: Body) -> None:
    """Reject forms of answers that the model does not take."""
    config = body.get("output_config", {})
    if "effort" in config and version(body) < 4.6:
        raise invalid("output_config.effort: This model does not support the effort parameter.")
    if "format" in config:
        if version(body) < 4.5:
            raise invalid("output_config.format: Extra inputs are not permitted")
        check_schema(config["format"]["schema"])
    if "tool_choice" in body and body.get("thinking", {}).get("type") in {"enabled", "adaptive"}:
        raise invalid("Thinking may not be enabled when tool_choice forces tool use.")


def check_schema(part: Any) -> None:
    """Reject keywords that a format does not take."""
    if isinstance(part, list):
        for one in part:
            check_schema(one)
    if not isinstance(part, dict):
        return
    if wrong := UNSUPPORTED & part.keys():
        raise invalid(f"output_config.format.schema: property '{min(wrong)}' is not supported")
    if part.get("type") == "object" and part.get("additionalProperties") is not False:
        raise invalid("output_config.format.schema: For 'object' type, 'additionalProperties' must be set to false")
    for name, one in part.items():
        for inner in one.values() if name in {"properties", "$defs"} else [one]:
            check_schema(inner)


@contextmanager
def serving(api: MessagesApi) -> Iterator[MessagesApi]:
    """Run the server until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = self.path.partition("?")[0]
            if path.startswith(message_batches.PATH):
                return self._send(api.batches.post(path, body, lambda params: api.reply(params, headers, batched=True)))
            if path != "/v1/messages":
                return self._send(RefusedError(404, "not_found_error", "Not found").reply)
            return self._send(api.reply(body, headers))

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.startswith(message_batches.PATH):
                headers = {name.lower(): value for name, value in self.headers.items()}
                return self._send(api.batches.get(path, lambda params: api.reply(params, headers, batched=True)))
            listed = [{"id": "claude-sonnet-4-5", "type": "model", "display_name": "Sonnet"}]
            return self._send((200, {"data": listed, "has_more": False}, {}))

        def _send(self, reply: Reply) -> None:
            status, document, headers = reply
            api.before_reply(self.command, self.path.partition("?")[0])
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            with suppress(OSError):  # a killed client
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
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        api.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield api
        finally:
            server.shutdown()
