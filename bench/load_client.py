"""The actions of the clients of the load benchmark. Each action is timed; provoked errors do not count as errors."""

import contextlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import pyarrow as pa
from pyarrow import flight

from bench.common import read_to_end
from flightllm.client import Client
from flightllm.errors import CancelledError
from flightllm.flight.messages import pack, sql_message

_RESULT_ROWS = 2_500_000
"""Rows of 40 bytes, 100 MB in all."""
_LARGE = f"""SELECT value, value * 2 AS b, value * 3 AS c, value * 4 AS d, value * 5 AS e
FROM generate_series(1, {_RESULT_ROWS})"""
_ENDLESS = "SELECT value, repeat('x', 200) AS s FROM generate_series(1, 100000000)"
_KILLED = """
import sys
from pyarrow import flight
client = flight.FlightClient(sys.argv[1])
info = client.get_flight_info(flight.FlightDescriptor.for_command(bytes.fromhex(sys.argv[2])))
client.do_get(info.endpoints[0].ticket).read_chunk()
print("rows", flush=True)
sys.stdin.read()
"""
_UPLOAD = pa.table({"n": np.arange(2_000), "s": [f"text {n}" for n in range(2_000)]})


@dataclass(frozen=True, slots=True)
class Plan:
    """The address of the server, and the load to put on it."""

    uri: str
    clients: int
    seconds: float
    think: float
    """The mean seconds between two actions of a client."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one action of a client."""

    kind: str
    seconds: float
    bytes: int = 0
    error: str | None = None


class _Client:
    """One client: its ADBC or pyarrow connection, and its actions on it."""

    def __init__(self, plan: Plan, number: int) -> None:
        self._plan = plan
        self._number = number
        self._chance = random.Random(number)  # noqa: S311 -- picks the actions of a client, not a secret
        self._adbc: flight_sql.Connection | None = None
        self._bare: Client | None = None
        self._made = False

    def run(self, until: float) -> list[Outcome]:
        """Do one action after another until the time `until`; return the results."""
        outcomes: list[Outcome] = []
        time.sleep(self._chance.uniform(0, self._plan.think))
        while time.monotonic() < until:
            (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
            started = time.monotonic()
            size, error = 0, None
            try:
                size = _DO[kind](self)
            except Exception as exc:  # noqa: BLE001 -- the report shows every error
                error = f"{type(exc).__name__}: {exc}"[:300]
                self._close()
            outcomes.append(Outcome(kind, time.monotonic() - started, size, error))
            if self._chance.random() < 0.1:
                self._close()
            time.sleep(min(self._chance.expovariate(1 / self._plan.think), max(0.0, until - time.monotonic())))
        self._close()
        return outcomes

    @property
    def _connection(self) -> flight_sql.Connection:
        if self._adbc is None:
            self._adbc = flight_sql.connect(self._plan.uri, autocommit=True)
        return self._adbc

    @property
    def _client(self) -> Client:
        if self._bare is None:
            self._bare = Client(self._plan.uri)
        return self._bare

    def _close(self) -> None:
        for one in (self._adbc, self._bare):
            if one is not None:
                with contextlib.suppress(Exception):
                    one.close()
        self._adbc = self._bare = None

    def _expect(self, found: object, wanted: object) -> None:
        if found != wanted:
            raise AssertionError(f"{found!r} instead of {wanted!r}")

    def small(self) -> int:
        """Query an aggregate over ADBC or pyarrow; return the bytes of the result."""
        sql, wanted = "SELECT count(*) AS n, sum(value) AS s FROM generate_series(1, 1000)", [(1000, 500_500)]
        if self._number % 2:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                self._expect(cursor.fetchall(), wanted)
        else:
            rows = [tuple(row.values()) for batch in self._client.query(sql)[1] for row in batch.to_pylist()]
            self._expect(rows, wanted)
        return 16

    def large(self) -> int:
        """Read a result of 100 MB; return its bytes."""
        rows = size = 0
        for batch in self._client.query(_LARGE)[1]:
            rows += batch.num_rows
            size += batch.nbytes
        self._expect(rows, _RESULT_ROWS)
        return size

    def ai(self) -> int:
        """Ask the model about twenty rows; return the bytes of the result.

        Other clients ask about half of these rows too.
        """
        base = self._chance.choice((0, self._number * 1_000 + self._chance.randrange(900)))
        sql = f"SELECT value, ai_gen('What of {{value}}?', value) AS a FROM generate_series({base + 1}, {base + 20})"
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            table = cursor.fetch_arrow_table()
        self._expect((table.num_rows, table["a"].null_count), (20, 0))
        return int(table.nbytes)

    def prepared(self) -> int:
        """Prepare a statement and run it with values; one statement in three is never closed."""
        sql = "SELECT $1 + 1 AS n, $2 AS s"
        if self._chance.random() < 1 / 3:
            body = pack(sql_message("ActionCreatePreparedStatementRequest", query=sql))
            with flight.connect(self._plan.uri) as bare:
                list(bare.do_action(flight.Action("CreatePreparedStatement", body)))
            return 0
        with self._connection.cursor() as cursor:
            for number in range(3):
                cursor.execute(sql, (number, "text"))
                self._expect(cursor.fetchall(), [(number + 1, "text")])
        return 0

    def ingest(self) -> int:
        """Replace or extend the client's own table, and count its rows; return the bytes sent."""
        name = f"own_{self._number}"
        mode: Literal["append", "replace"] = "append" if self._made and self._chance.random() < 0.7 else "replace"
        with self._connection.cursor() as cursor:
            self._expect(cursor.adbc_ingest(name, _UPLOAD, mode=mode), len(_UPLOAD))
            self._made = True
            cursor.execute(f"SELECT count(*) % {len(_UPLOAD)} FROM {name}")
            self._expect(cursor.fetchall(), [(0,)])
        return int(_UPLOAD.nbytes)

    def cancel(self) -> int:
        """Cancel a query after its first rows: it must end as cancelled, or with its last row."""
        client = self._client
        _, batches = client.query(_ENDLESS)
        next(batches)
        query_id = client.query_id or ""
        client.cancel(query_id)
        with contextlib.suppress(CancelledError):
            read_to_end(batches)
        return 0

    def disconnect(self) -> int:
        """Disconnect during a result, or close a socket during the HTTP/2 handshake."""
        if self._chance.random() < 0.3:
            host, _, port = self._plan.uri.removeprefix("grpc://").rpartition(":")
            with socket.create_connection((host, int(port))) as opened:
                opened.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x40")
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # reset
            return 0
        client = Client(self._plan.uri)
        _, batches = client.query(_ENDLESS)
        next(batches)
        client.close()
        return 0

    def killed(self) -> int:
        """Kill a client process during a result."""
        command = pack(sql_message("CommandStatementQuery", query=_ENDLESS)).hex()
        with subprocess.Popen(
            [sys.executable, "-c", _KILLED, self._plan.uri, command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            said = process.stdout.readline() if process.stdout else b""
            process.send_signal(signal.SIGKILL)
        self._expect(said, b"rows\n")
        return 0


_DO: Mapping[str, Callable[[_Client], int]] = {
    "small query": _Client.small,
    "100 MB result": _Client.large,
    "AI query": _Client.ai,
    "prepared": _Client.prepared,
    "ingest": _Client.ingest,
    "cancel": _Client.cancel,
    "disconnect": _Client.disconnect,
    "killed client": _Client.killed,
}
KINDS: Mapping[str, float] = {
    "small query": 44,
    "100 MB result": 1.5,
    "AI query": 22,
    "prepared": 15,
    "ingest": 9,
    "cancel": 4,
    "disconnect": 4,
    "killed client": 0.5,
}
"""The actions of clients and their frequency in percent."""


def run_clients(plan: Plan, numbers: Sequence[int]) -> list[Outcome]:
    """Run clients in threads of this process until the time is up; return their results."""
    until = time.monotonic() + plan.seconds
    outcomes: list[Any] = []
    threads = [
        threading.Thread(target=lambda number=number: outcomes.extend(_Client(plan, number).run(until)))
        for number in numbers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
