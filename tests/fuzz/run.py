"""Send hostile input to a real server and look at all that it answers."""

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyarrow import flight

from flightllm.access.store import AccessStore, User
from flightllm.flight.messages import pack, sql_message, unpack
from tests.fuzz.commands import command, headers, plan, statement
from tests.fuzz.uploads import upload
from tests.fuzz.wire import Said, Sent, Wire, action, body_of, descriptor, ticket
from tests.servers import SupervisedServer

KINDS: Mapping[str, int] = {"statement": 50, "command": 20, "upload": 18, "plan": 6, "headers": 6}
"""What is sent, and how much of it, in percent."""
SETTINGS = """
[engine]
kind = "fake"
[embedding]
kind = "fake"
[limits]
statement_seconds = 5
concurrent_queries = 16
memory_bytes = 67_108_864
server_memory_bytes = 268_435_456
spill_bytes = 67_108_864
upload_bytes = 4_194_304
result_bytes = 16_777_216
[recovery]
quarantine_seconds = 0
[log]
level = "warning"
format = "json"
"""
TABLES = (
    """CREATE OR REPLACE TABLE people AS SELECT * FROM (VALUES (1, 'Ann', 'tea', 3.5, true, DATE '2024-01-02'),
    (2, 'Bob', NULL, 1.0, false, NULL), (3, NULL, 'rain', NULL, NULL, NULL)) AS v(id, name, note, score, flag, day)""",
    "CREATE OR REPLACE TABLE likes AS SELECT * FROM (VALUES (1, 'a', 2), (2, NULL, 1)) AS v(person_id, thing, weight)",
    "CREATE OR REPLACE TABLE nothing AS SELECT * FROM people WHERE id < 0",
    """CREATE OR REPLACE TABLE reviews AS SELECT id AS review_id, note AS review_content, 'fresh' AS review_type,
    'x' AS rotten_tomatoes_link, note AS review_text, id AS product_id, id AS overall FROM people""",
    """CREATE OR REPLACE TABLE movies AS SELECT 'x' AS rotten_tomatoes_link, name AS movie_title, note AS movie_info,
    name AS title, 'PG' AS content_rating FROM people""",
    "CREATE OR REPLACE TABLE questions AS SELECT id, note AS question FROM people",
    "GRANT SELECT ON SCHEMA public TO user",
    "GRANT SELECT ON SCHEMA public TO readonly",
    "GRANT CREATE ON SCHEMA public TO user",
)
CANARY = "SELECT count(*) AS n, sum(value) AS s FROM generate_series(1, 1000)"
_SLOW = 8.0
_PER_CONNECTION, _PER_CANARY = 2_000, 250
_ALLOWED = {
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "PERMISSION_DENIED", "UNAUTHENTICATED", "CANCELLED",
    "DEADLINE_EXCEEDED",
}  # fmt: skip
_LEAKS = re.compile(
    r"Traceback|\.py\b|File \"|internal error|panicked|\.rs:\d|/rustc/|\.cargo|site-packages|\bat 0x[0-9a-f]+",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Seen:
    """What came of a run."""

    statuses: Counter[str] = field(default_factory=Counter)
    """By kind and status."""
    findings: list[str] = field(default_factory=list)
    """What must not be, with the number of the input that shows it again."""
    memory: list[int] = field(default_factory=list)
    """Of the server's process, in MiB, as the run goes on."""
    workers: set[int] = field(default_factory=set)
    """The processes that served."""
    defects: Counter[str] = field(default_factory=Counter)
    """Tracebacks in the server's log, and its deaths."""


def make(seed: int, number: int, handle: bytes = b"") -> tuple[str, Sent]:
    """Return the input of a number: the same each time."""
    chance = random.Random(f"{seed}-{number}")  # noqa: S311 -- which input comes, no secret
    (kind,) = chance.choices(list(KINDS), list(KINDS.values()))
    makers: Mapping[str, Callable[[], Sent]] = {
        "statement": lambda: statement(chance),
        "command": lambda: command(chance),
        "upload": lambda: upload(chance, handle),
        "plan": lambda: plan(chance),
        "headers": lambda: headers(chance),
    }
    return kind, makers[kind]()


def fuzz(
    folder: Path, seed: int, number: int, *, first: int = 0, threads: int = 4, note: Callable[[str], None] = print
) -> Seen:
    """Send `number` inputs from `first` on to a server of its own, as admin, user and readonly in turn."""
    (folder / "data").mkdir()
    store = AccessStore(folder / "data" / "access.sqlite")
    tokens = []
    for name in ("admin", "user", "readonly"):
        store.add_user(User(f"the-{name}", name))
        tokens.append(store.add_token(f"the-{name}"))
    store.close()
    with SupervisedServer(folder, SETTINGS) as server:
        run = _Run(
            server,
            seed,
            tokens,
            count(first),
            first + number,
            [str(folder), str(Path.cwd()), sys.prefix, "/usr/lib"],
            note,
        )
        workers = [threading.Thread(target=run.work, name=f"fuzz-{place}") for place in range(threads)]
        run.prepare()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        run.look()
        run.seen.defects.update(_defects(server.log.read_text()))
    return run.seen


class _Run:
    """One run: its threads take the next number each."""

    def __init__(
        self,
        server: SupervisedServer,
        seed: int,
        tokens: list[str],
        numbers: "count[int]",
        end: int,
        paths: list[str],
        note: Callable[[str], None],
    ) -> None:
        self.seen = Seen()
        self._server, self._seed, self._tokens, self._numbers, self._end = server, seed, tokens, numbers, end
        self._paths, self._note = paths, note
        self._address = server.uri.removeprefix("grpc://")
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Make the tables."""
        with closing(Wire(self._address)) as wire:
            for text in TABLES:
                said = wire.send(self._query(text, 0))
                assert said.code == "OK", said

    def work(self) -> None:
        """Send inputs until there are no more."""
        wire, handle = self._connect()
        for sent, number in enumerate(self._numbers, 1):
            if number >= self._end:
                break
            if sent % _PER_CONNECTION == 0:
                wire.close()
                wire, handle = self._connect()
            kind, one = make(self._seed, number, handle)
            who = number % len(self._tokens)
            began = time.monotonic()
            said = self._send(wire, one, who)
            if time.monotonic() - began > _SLOW:
                self._note(f"slow: {self._seed}-{number} {kind} {time.monotonic() - began:.1f} s")
            self._judge(number, kind, one, said)
            if one.method == "GetFlightInfo" and said.code == "OK":
                self._fetch(wire, number, kind, one, said, who)
            if number % _PER_CANARY == 0:
                self._canary(wire, number)
            if number % 2_500 == 0:
                self.look()
        wire.close()

    def look(self) -> None:
        """Note the server's process and its memory."""
        pid = self._server.children()[0]
        status = Path(f"/proc/{pid}/status").read_text()
        with self._lock:
            self.seen.workers.add(pid)
            self.seen.memory.append(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) >> 10)
            done = sum(self.seen.statuses.values())
            self._note(f"{done:,} answers, {self.seen.memory[-1]} MiB, {len(self.seen.findings)} findings")

    def _connect(self) -> tuple[Wire, bytes]:
        wire = Wire(self._address)
        body = pack(
            sql_message(
                "ActionCreatePreparedStatementRequest", query="SELECT id FROM people WHERE id = $1 OR name = $2"
            )
        )
        said = wire.send(Sent("DoAction", [action("CreatePreparedStatement", body)], self._header(0)))
        if said.code != "OK":
            return wire, b"none"
        return wire, bytes(unpack(body_of(said.messages[0])).message.prepared_statement_handle)

    def _header(self, who: int) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._tokens[who]}"),)

    def _query(self, text: str, who: int) -> Sent:
        return Sent(
            "GetFlightInfo", [descriptor(pack(sql_message("CommandStatementQuery", query=text)))], self._header(who)
        )

    def _send(self, wire: Wire, sent: Sent, who: int) -> Said:
        named = {name for name, _ in sent.headers}
        rest = () if "authorization" in named else self._header(who)
        try:
            return wire.send(Sent(sent.method, sent.messages, (*sent.headers, *rest)))
        except ValueError:  # grpcio itself refuses a header: nothing was sent
            return Said("CANCELLED", "", ())

    def _fetch(self, wire: Wire, number: int, kind: str, one: Sent, said: Said, who: int) -> None:
        """Read the beginning of a result."""
        try:
            info = flight.FlightInfo.deserialize(said.messages[0])
        except Exception as error:  # noqa: BLE001 -- whatever pyarrow makes of it is a finding
            self._found(number, kind, one, f"a FlightInfo that cannot be read: {error}")
            return
        for endpoint in info.endpoints[:1]:
            self._judge(
                number,
                f"{kind}, rows",
                one,
                wire.send(Sent("DoGet", [ticket(endpoint.ticket.ticket)], self._header(who))),
            )

    def _judge(self, number: int, kind: str, sent: Sent, said: Said) -> None:
        with self._lock:
            self.seen.statuses[f"{kind}: {said.code}"] += 1
        if said.code not in _ALLOWED and not _of_the_library(said) and not _of_a_limit(said):
            self._found(number, kind, sent, f"{said.code}: {said.text[:500]}")
        given = b"".join(sent.messages).decode("utf-8", "replace")
        leak = _LEAKS.search(said.text)
        if leak is not None and leak.group().lower() not in given.lower():
            self._found(number, kind, sent, f"says {leak.group()!r}: {said.code}: {said.text[:500]}")
        for path in self._paths:
            if path in said.text:
                self._found(number, kind, sent, f"tells a path: {said.code}: {said.text[:500]}")

    def _canary(self, wire: Wire, number: int) -> None:
        plain = self._query(CANARY, 0)
        one_part = ("x-flightllm-endpoints", "1")  # an input may have set another number for this connection
        said = wire.send(Sent(plain.method, plain.messages, (*plain.headers, one_part)))
        fetched = Said(said.code, said.text, ())
        if said.code == "OK":
            (endpoint,) = flight.FlightInfo.deserialize(said.messages[0]).endpoints
            fetched = wire.send(Sent("DoGet", [ticket(endpoint.ticket.ticket)], self._header(0)))
        right = fetched.code == "OK" and (500_500).to_bytes(8, "little") in b"".join(fetched.messages)
        if not right:
            self._found(number, "canary", Sent("", ()), f"{fetched.code}: {fetched.text[:300]}")

    def _found(self, number: int, kind: str, sent: Sent, what: str) -> None:
        with self._lock:
            if len(self.seen.findings) < 200:
                self.seen.findings.append(f"{self._seed}-{number} {kind} {sent.method}: {what}")
                self._note(f"FOUND {self.seen.findings[-1]}")


def _of_a_limit(said: Said) -> bool:
    return said.code == "UNAVAILABLE" and "[limits]" in said.text


def _of_the_library(said: Said) -> bool:
    """Return whether gRPC or Arrow refused a message before the server's own code saw it, or gave it another status.

    pyarrow passes no status of Flight's own on in GetSchema: its message comes as UNKNOWN.
    """
    unread = said.code == "INTERNAL" and not said.text.strip()
    unseen = said.code == "UNKNOWN" and "x-arrow-status" in said.text and "x-flightllm-sqlstate" not in said.text
    renamed = said.code == "UNKNOWN" and "Python exception: pyarrow._flight.Flight" in said.text
    return unread or unseen or renamed


def _defects(log: str) -> Iterator[str]:
    """Yield what the log tells of deaths and internal errors."""
    for line in log.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            if "Fatal" in line:
                yield line[:500]
            continue
        if event.get("level") == "error":
            yield f"{event['event']}: {event.get('exit', '')}{event.get('traceback', '')[-1_500:]}"
