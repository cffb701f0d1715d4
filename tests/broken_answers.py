"""An endpoint whose every response can be broken: right answers name their rows, and mutations spoil what is sent.

Each right answer has a checksum, so that a test can tell one row's answer from a text that a mutation changed.
"""

import gzip
import json
import random
import re
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Document: TypeAlias = dict[str, Any]
_NUMBER = re.compile(r"row number (\d+)!")
_ANSWER = re.compile(r"answer of (\d+) #(\d+)\.")
CAP = 1 << 20
"""The `response_bytes` under which `_large` and `_bomb` are too large."""


def question(row: int) -> str:
    """Return the text of a row."""
    return f"row number {row}!"


def answer(row: int) -> str:
    """Return the right answer of a row."""
    return f"answer of {row} #{zlib.crc32(str(row).encode())}."


def named_rows(text: str) -> set[int]:
    """Return the rows whose answers are in a text, unchanged."""
    found = (match for match in _ANSWER.finditer(text))
    return {int(match[1]) for match in found if zlib.crc32(match[1].encode()) == int(match[2])}


def vector(row: int) -> list[float]:
    """Return the right vector of a row: any three of its numbers tell whether the fourth was changed."""
    return [float(row), float(-row), float(2 * row), 4.0]


@dataclass(slots=True)
class Reply:
    """What is sent: changed by mutations, in any way."""

    document: Any
    status: str = "200 OK"
    headers: list[tuple[str, str]] = field(default_factory=lambda: [("Content-Type", "application/json")])
    body: bytes | None = None
    """In place of the document."""
    raw: bytes | None = None
    """In place of everything."""
    cut: int | None = None
    """Bytes of the body after which the connection ends."""

    def encoded(self) -> bytes:
        """Return the body."""
        return json.dumps(self.document).encode() if self.body is None else self.body

    def sent(self) -> tuple[bytes, bool]:
        """Return all bytes to send, and whether the connection ends after them."""
        if self.raw is not None:
            return self.raw, True
        body = self.encoded()
        headers = [*self.headers]
        if not any(name.lower() in {"content-length", "transfer-encoding"} for name, _ in headers):
            headers.append(("Content-Length", str(len(body))))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers)
        sent = body if self.cut is None else body[: self.cut]
        return f"HTTP/1.1 {self.status}\r\n{head}\r\n".encode("latin-1") + sent, self.cut is not None


Mutation: TypeAlias = Callable[[Reply, random.Random], None]
_STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 10**30, -(10**400), 1.5, float("nan"), float("inf"), "", "many", "\ud800", "\0"),
    *([], [[]], [None], [1, 2, 3], {}, {"a": {}}, "x" * 5_000, ["\udfff"], {"\ud800": "\udc00"}),
)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a document: what holds it, and its key there."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def _any_value(reply: Reply, chance: random.Random) -> None:
    """Put a strange value anywhere."""
    holder, key = chance.choice(list(_places(reply.document)))
    holder[key] = chance.choice(_STRANGE)


def _no_value(reply: Reply, chance: random.Random) -> None:
    """Leave out anything."""
    holder, key = chance.choice(list(_places(reply.document)))
    del holder[key]


def _twice(reply: Reply, chance: random.Random) -> None:
    """Repeat an item of a list."""
    lists = [holder[key] for holder, key in _places(reply.document) if isinstance(holder[key], list) and holder[key]]
    if lists:
        chosen = chance.choice(lists)
        chosen.insert(chance.randrange(len(chosen) + 1), chance.choice(chosen))


def _items(reply: Reply) -> list[Document]:
    return reply.document.get("choices") or reply.document["data"]  # type: ignore[no-any-return]


def _indices(reply: Reply, chance: random.Random) -> None:
    """Give indices that are no permutation: repeated, negative, out of range, of other types, or missing."""
    items = _items(reply)
    match chance.randrange(5):
        case 0:
            for item in items:
                item["index"] = 1 if len(items) == 1 else 0
        case 1:
            for item in items:
                item["index"] = -1 - item["index"]
        case 2:
            for item in items:
                item["index"] += 1
        case 3:
            chance.choice(items)["index"] = chance.choice([*_STRANGE, "0", 0.5, 2**64])
        case _:
            chance.choice(items).pop("index")
    if len(items) > 1 and {repr(item.get("index")) for item in items} == {str(i) for i in range(len(items))}:
        items[0]["index"] = items[1]["index"]  # a permutation after all would be one more right body


def _count(reply: Reply, chance: random.Random) -> None:
    """Send too few choices, or too many."""
    items = _items(reply)
    if chance.random() < 0.5:
        items.pop(chance.randrange(len(items)))
    else:
        items.append(dict(items[0], index=chance.choice([0, len(items), -1])))


def _content(reply: Reply, chance: random.Random) -> None:
    """Put something else where the text is: parts, which some endpoints send, or what is no text."""
    for item in _items(reply):
        holder, key = (item["message"], "content") if "message" in item else (item, "text")
        if key not in holder:
            return
        text = holder[key]
        part = {"type": "text", "text": text}
        kinds: tuple[Any, ...] = (
            *([part], [{"type": "text", "text": text[:4]}, {"type": "text", "text": text[4:]}], [{"type": "image"}]),
            *([part, {"type": "text"}], [{"type": "refusal", "refusal": "no \ud800"}], [], {}, part, 5, None, [text]),
            *(f"{text} \ud83d", f"\udc00{text}", f"{text}\0", f"{text} \U0001f600", f"\x00\x01\x1b[2J{text}", ""),
        )
        holder[key] = chance.choice(kinds)


def _finish(reply: Reply, chance: random.Random) -> None:
    """End the text early, and say so."""
    for item in _items(reply):
        reason = chance.choice(["length", "content_filter", "stop", None, 5, ["length"], "\ud800"])
        item["finish_reason"] = reason
        holder, key = (item["message"], "content") if "message" in item else (item, "text")
        if key in holder and reason in ("length", "content_filter"):
            holder[key] += f" {reason.upper()}"
        if "message" in item and chance.random() < 0.3:
            item["message"] |= {"refusal": "I cannot \ud800 help", "content": chance.choice([None, "", holder[key]])}


def _usage(reply: Reply, chance: random.Random) -> None:
    """Count tokens in strange ways."""
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details")
    reply.document["usage"] = chance.choice([{n: chance.choice(_STRANGE) for n in names}, chance.choice(_STRANGE)])


def _logprobs(reply: Reply, chance: random.Random) -> None:
    """Send log-probabilities that are none."""
    for item in _items(reply):
        item["logprobs"] = chance.choice(_STRANGE)


def _numbers(reply: Reply, chance: random.Random) -> None:
    """Send vectors that are none."""
    for item in _items(reply):
        if "embedding" in item:
            right = item["embedding"]
            kinds = ("AAAA", "!!", "AACAPwAAgL8=", "", right[:3], [*right, 1.0], [float("nan")] * 4, [1e39] * 4)
            item["embedding"] = chance.choice((*kinds, ["1"] * 4, [True] * 4, [[1.0]] * 4, [], None, 5, [10**400] * 4))


def _document(reply: Reply, chance: random.Random) -> None:
    """Send another JSON value."""
    reply.document = chance.choice((*_STRANGE, {"error": {"message": "no \ud800"}}, {"error": "x"}, {"choices": {}}))


def _truncated(reply: Reply, chance: random.Random) -> None:
    """Cut the JSON short; the lengths are right."""
    body = reply.encoded()
    reply.body = body[: chance.randrange(len(body))]


def _flipped(reply: Reply, chance: random.Random) -> None:
    """Change some bytes."""
    body = bytearray(reply.encoded())
    for _ in range(chance.randrange(1, 9)):
        place = chance.randrange(len(body))
        match chance.randrange(3):
            case 0:
                body[place] = chance.randrange(256)
            case 1:
                del body[place]
            case _:
                body.insert(place, chance.randrange(256))
    reply.body = bytes(body)


def _trailing(reply: Reply, chance: random.Random) -> None:
    """Send something after the JSON, or before it."""
    body = reply.encoded()
    more = chance.choice([b"}", b"{}", body, b"\0", b"\xff", b"data: [DONE]\n\n", b" \r\n"])
    reply.body = chance.choice([body + more, more + body])


def _other_format(reply: Reply, chance: random.Random) -> None:
    """Send no JSON at all, or say that it is something else."""
    text = reply.encoded()
    page = b"<!DOCTYPE html><html><body>Please log in</body></html>"
    kinds = (
        *((page, "text/html"), (page, "application/json"), (text, "text/html"), (text, "text/plain; charset=utf-16")),
        *((text, "application/json; charset=hex"), (text, "\xff\xfe"), (text, ""), (b"", "application/json")),
        *((b"data: " + text + b"\n\ndata: [DONE]\n\n", "text/event-stream"), (b"\xff\xfe\x80", "application/json")),
        *((text.decode().encode("utf-16"), "application/json"), (b"\xef\xbb\xbf" + text, "application/json")),
        *((b"[" * 200_000, "application/json"), (b'{"a":' * 50_000, "application/json"), (b"9" * 9_000, "x/y")),
    )
    reply.body, kind = chance.choice(kinds)
    reply.headers = [("Content-Type", kind)] if kind else []


def _packed(reply: Reply, chance: random.Random) -> None:
    """Pack the body: rightly, wrongly, or as something else."""
    body = reply.encoded()
    packed = gzip.compress(body)
    kinds = (
        *((packed, "gzip"), (packed, "x-gzip"), (zlib.compress(body), "deflate"), (body, "gzip"), (packed, "identity")),
        *((packed[:-9], "gzip"), (packed[:20] + b"\0" * 9 + packed[29:], "gzip"), (packed + b"more", "gzip")),
        *((gzip.compress(packed), "gzip, gzip"), (body, "br"), (body, "zstd"), (body, "\xff"), (b"", "gzip")),
    )
    reply.body, encoding = chance.choice(kinds)
    reply.headers.append(("Content-Encoding", encoding))


_BOMB = gzip.compress(b" " * (64 << 20))


def _large(reply: Reply, chance: random.Random) -> None:
    """Send more than the engine takes."""
    if chance.random() < 0.5:
        reply.headers.append(("Content-Encoding", "gzip"))
        reply.body = _BOMB
    else:
        reply.body = reply.encoded() + b" " * (CAP + chance.randrange(3) * 65_536)
        if chance.random() < 0.5:
            reply.headers.append(("Transfer-Encoding", "chunked"))
            reply.body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(reply.body), reply.body)


def _status(reply: Reply, chance: random.Random) -> None:
    """Send another status; those that say that the endpoint is gone, or the key wrong, are of the whole query."""
    refused = ["400 Bad", "413 Long"] if len(_items(reply)) == 1 else []  # else the engine sends no more lists
    reply.status = chance.choice(["201 Created", "204 No Content", "500 Oh", "418 Tea", *refused])
    if reply.status.startswith("204"):
        reply.body = b""


def _redirect(reply: Reply, chance: random.Random) -> None:
    """Send the client elsewhere: to a page, to itself for ever, or to no address."""
    places = ("/login", "/loop", "", "http://[::bad", "ftp://127.0.0.1/", "http://127.0.0.1:9/", "//", "\xff", "/v1\\x")
    reply.status = chance.choice(["301 Moved", "302 Found", "303 Other", "307 Again", "308 For ever"])
    reply.headers.append(("Location", chance.choice(places)))


def _broken_off(reply: Reply, chance: random.Random) -> None:
    """End the connection inside the body."""
    reply.cut = chance.randrange(len(reply.encoded()))


def _no_http(reply: Reply, chance: random.Random) -> None:
    """Send what is no HTTP, or what breaks its rules."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    body = reply.encoded()
    reply.raw = chance.choice(
        [
            *(b"", b"\x00\x01\x02", b"HTTP/9.9 abc\r\n\r\n", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\n", body),
            *(chunked + b"zz\r\n" + body, chunked + b"5\r\n" + body, chunked + b"-1\r\n\r\n", chunked),
            *(chunked + b"%x\r\n%b\r\n" % (len(body), body), head + b"Content-Length: -5\r\n\r\n" + body),
            *(head + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n" + body, head + b"bad header\r\n\r\n" + body),
            *(head + b"Content-Length: 99999999999999999999999\r\n\r\n" + body, head + b"\r\n" + body),
        ]
    )


MUTATIONS: tuple[Mutation, ...] = (
    *(_any_value, _any_value, _no_value, _twice, _indices, _indices, _count, _content, _content, _finish, _usage),
    *(_logprobs, _numbers, _document, _truncated, _flipped, _flipped, _trailing, _other_format, _packed, _status),
)
RARE: tuple[Mutation, ...] = (_large, _redirect, _broken_off, _no_http)
"""Mutations that cost a new connection or much data."""


@dataclass
class BrokenEndpoint:
    """Counts what it sent; `broken` decides by chance which responses are mutated."""

    seed: int
    broken: float = 0.97
    url: str = ""
    sent: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def mutated(self) -> int:
        """Return how many mutated bodies were sent."""
        return sum(count for name, count in self.sent.items() if name != "right")

    def reply(self, path: str, body: Document) -> Reply:
        """Answer a request, mostly wrongly; a text of the engine's own is answered rightly."""
        reply = Reply(_right(path, body))
        with self.lock:
            chance = random.Random(f"{self.seed} {sum(self.sent.values())}")  # noqa: S311 - no cryptography
            name, own = "right", body.get("input") == ["length"]
            if chance.random() < self.broken and not own:
                mutation = chance.choice(RARE if chance.random() < 0.05 else MUTATIONS)
                name = mutation.__name__
            self.sent[name] += 1
        if name != "right":
            mutation(reply, chance)
        return reply


def _right(path: str, body: Document) -> Document:
    frame: Document = {"id": "1", "created": 1, "model": body["model"]}
    asked: Any = body["messages"][-1]["content"] if "messages" in body else body.get("prompt", body.get("input"))
    prompts: list[str] = [asked] if isinstance(asked, str) else asked
    rows = [int(found[1]) if (found := _NUMBER.search(prompt)) else -1 for prompt in prompts]
    usage = {"prompt_tokens": 10 * len(rows), "completion_tokens": 5 * len(rows), "total_tokens": 15 * len(rows)}
    usage |= {"prompt_tokens_details": {"cached_tokens": 3 * len(rows)}}  # type: ignore[dict-item]
    if path.endswith("/embeddings"):
        data = [{"object": "embedding", "index": place, "embedding": vector(row)} for place, row in enumerate(rows)]
        return {**frame, "object": "list", "data": data, "usage": usage}
    if path.endswith("/chat/completions"):
        message = {"role": "assistant", "content": answer(rows[0])}
        choices: list[Document] = [{"index": 0, "finish_reason": "stop", "message": message}]
    else:
        choices = [{"index": i, "finish_reason": "stop", "text": answer(row)} for i, row in enumerate(rows)][::-1]
    return {**frame, "object": "completion", "choices": choices, "usage": usage}


@contextmanager
def broken_endpoint(seed: int, broken: float = 0.97) -> Iterator[BrokenEndpoint]:
    """Run an endpoint on loopback."""
    endpoint = BrokenEndpoint(seed, broken)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path in {"/loop", "/login"}:
                self._elsewhere()
                return
            sent, self.close_connection = endpoint.reply(self.path, body).sent()
            self._send(sent)

        def do_GET(self) -> None:
            if self.path in {"/loop", "/login"}:
                self._elsewhere()
            else:
                self._send(Reply({"object": "list", "data": []}).sent()[0])

        def _elsewhere(self) -> None:
            page = Reply(None, "200 OK", [("Content-Type", "text/html")], b"<html>log in</html>")
            loop = Reply(None, "307 Again", [("Location", "/loop")], b"")
            self._send((page if self.path == "/login" else loop).sent()[0])

        def _send(self, sent: bytes) -> None:
            try:
                self.wfile.write(sent)
            except OSError:  # the engine took no more
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Keep quiet of connections that the engine closed."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            yield endpoint
        finally:
            server.shutdown()
