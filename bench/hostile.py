"""Run hostile statements on one connection, and measure their effect on a client that runs SELECT 1 at the same time.

    python -m bench.hostile [--json] [--only NAME] [--seconds 20]

A real server process runs with default limits on the fake engine. It can reserve 12 GiB of addresses beyond those of
its start, so that it cannot take the machine down. The client cancels each statement after `--seconds`. An
administrator runs the statements. A hostile row filter or mask is set for another user, whose query it slows down.

The output has one line for each statement:

- how the statement ended
- the victim's 99th percentile and maximum in seconds, and its failures
- the peak memory of the server's process and of its isolated processes, in MiB
- whether the server died; a new server starts in this case

With `--json` the last line is one object with the figures over all statements. The exit code is 1 if one of these is
true:

- the victim's 99th percentile is over one second, or its maximum is over three
- a statement of the victim failed
- the server's process took 8 GiB, or it died
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from datafusion import SessionContext
from datafusion.substrait import Producer

from bench.common import machine
from flightllm.access.store import AccessStore, User
from flightllm.sql.grants import Grant
from tests.hostile import HOSTILE, READER, TABLES, Hostile

_SCRIPT = """
import sys
from pathlib import Path
from flightllm.config import Config, EngineConfig, RecoveryConfig, ServerConfig
from flightllm.server.serve import serve
serve(Config(server=ServerConfig("127.0.0.1:0"), engine=EngineConfig(kind="fake"), data_folder=Path(sys.argv[1]),
             recovery=RecoveryConfig(on_engine_down="fail")))
"""
_EVERY_SECONDS = 0.05
_P99_SECONDS, _MOST_SECONDS, _MOST_MIB = 1.0, 3.0, 8 << 10
_MORE_ADDRESSES = 12 << 30
"""Bytes of addresses that the server can reserve beyond those of its idle state."""
_ADMIN, _READER = "ann", READER
_GRACE_SECONDS = 20.0
"""Seconds that a cancelled statement has to end before the server is killed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The measurements of one statement."""

    name: str
    outcome: str
    seconds: float
    cancelled: bool
    """Whether the client had to cancel the statement."""
    p50: float
    p99: float
    worst: float
    """The 50th and 99th percentile and the maximum of the victim's statements, in seconds."""
    failures: int
    """The number of the victim's statements that failed."""
    peak_mib: float
    isolated_mib: float
    died: bool

    @property
    def held(self) -> bool:
        """Return whether the server still served others within the limits."""
        served = not self.failures and self.p99 <= _P99_SECONDS and self.worst <= _MOST_SECONDS
        return served and not self.died and self.peak_mib < _MOST_MIB


class Server:
    """A server process with the tables that the statements read."""

    def __init__(self, folder: Path) -> None:
        store = AccessStore(folder / "access.sqlite")
        for user in (User(_ADMIN, "admin"), User(_READER, "user")):
            if user.name not in store.snapshot().users:
                store.add_user(user)
        store.grant([Grant(_READER, "SELECT", "TABLE", "public", name) for name in TABLES])
        self._tokens = {name: store.add_token(name) for name in (_ADMIN, _READER)}
        store.close()
        command = [sys.executable, "-c", _SCRIPT, str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = iter(self.process.stdout or ())
        self.uri = next(line for line in lines if line.startswith("listening ")).removeprefix("listening ").strip()
        # A pipe that nobody reads fills up, and the server's log then waits for it.
        threading.Thread(target=lambda: deque(lines, maxlen=0), daemon=True).start()
        with self.connect() as connection, connection.cursor() as cursor:
            for name, statement in TABLES.items():
                cursor.execute(statement.replace(f"TABLE {name}", f"OR REPLACE TABLE {name}"))
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MORE_ADDRESSES
        resource.prlimit(self.process.pid, resource.RLIMIT_AS, (most, most))

    def connect(self, user: str = _ADMIN) -> flight_sql.Connection:
        """Open a connection as a user."""
        header = {"adbc.flight.sql.authorization_header": f"Bearer {self._tokens[user]}"}
        return flight_sql.connect(self.uri, header, autocommit=True)

    @property
    def died(self) -> bool:
        """Return whether the process has ended."""
        return self.process.poll() is not None

    def peak_mib(self) -> float:
        """Return the peak memory of the process since the last call, in MiB."""
        found = 0.0
        with suppress(OSError, IndexError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            found = int(status.partition("VmHWM:")[2].split()[0]) / 1024
            Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return found

    def isolated_mib(self) -> float:
        """Return the memory that its isolated processes use now, in MiB."""
        found = 0
        with suppress(OSError, IndexError, ValueError):
            for task in Path(f"/proc/{self.process.pid}/task").iterdir():
                for child in (task / "children").read_text().split():
                    found += int(Path(f"/proc/{child}/statm").read_text().split()[1])
        return found * resource.getpagesize() / (1 << 20)

    def kill(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


class Victim(threading.Thread):
    """Runs SELECT 1 again and again. A statement without an answer yet counts with its time so far."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._ended = threading.Event()
        self._asked: float | None = None
        self.seconds: list[float] = []
        self.failures = 0
        self.isolated_mib = 0.0

    def run(self) -> None:
        """Ask until the end; open a new connection after a failure."""
        while not self._ended.is_set():
            try:
                self._ask()
            except Exception:  # noqa: BLE001 - whatever the driver raises is a failure
                self.failures += not self._ended.is_set()
                self._ended.wait(_EVERY_SECONDS)

    def _ask(self) -> None:
        with self._server.connect() as connection, connection.cursor() as cursor:
            while not self._ended.wait(_EVERY_SECONDS):
                self.isolated_mib = max(self.isolated_mib, self._server.isolated_mib())
                self._asked = time.monotonic()
                cursor.execute("SELECT 1")
                cursor.fetchall()
                self.seconds.append(time.monotonic() - self._asked)
                self._asked = None

    def end(self) -> list[float]:
        """Stop asking; return the seconds of each answer in ascending order."""
        self._ended.set()
        self.join(_GRACE_SECONDS)
        waiting = [] if self._asked is None else [time.monotonic() - self._asked]
        return sorted([*self.seconds, *waiting]) or [0.0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--only", default="", help="run only statements whose names contain this text")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds until a statement is cancelled")
    chosen = parser.parse_args(arguments)
    server: Server | None = None
    all_seen: list[Seen] = []
    all_waits: list[float] = []
    print(f"{'statement':32} {'s':>6} {'p99 s':>6} {'max s':>6} {'MiB':>6} {'others':>6} fail died outcome", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for hostile in HOSTILE:
            if chosen.only not in hostile.name:
                continue
            if server is None or server.died:
                server = Server(Path(folder))
            seen, waits = _run(server, hostile, chosen.seconds)
            all_seen.append(seen)
            all_waits += waits
            print(
                f"{seen.name:32} {seen.seconds:6.1f} {seen.p99:6.2f} {seen.worst:6.2f} {seen.peak_mib:6.0f}"
                f" {seen.isolated_mib:6.0f} {seen.failures:4} {'yes ' if seen.died else 'no  '} {seen.outcome}",
                flush=True,
            )
        if server is not None:
            server.kill()
    harmful = [seen.name for seen in all_seen if not seen.held]
    print(f"{len(harmful)} of {len(all_seen)} statements harmed others")
    if chosen.json:
        figures = {**_figures(all_seen, all_waits), "harmful": harmful, "statements": list(map(asdict, all_seen))}
        print(json.dumps({"bench": "hostile", **figures, "machine": machine()}))
    return int(bool(harmful))


def _figures(seen: Sequence[Seen], waits: Sequence[float]) -> dict[str, float]:
    """Return the figures over all statements."""
    waits = sorted(waits)
    return {
        "hostile": len(seen),
        "answers": len(waits),
        "p50": _percentile(waits, 0.5),
        "p99": _percentile(waits, 0.99),
        "max": waits[-1] if waits else 0.0,
        "worst_p99": max((one.p99 for one in seen), default=0.0),
        "failures": sum(one.failures for one in seen),
        "deaths": sum(one.died for one in seen),
        "stalled": sum(one.cancelled for one in seen),
        "peak_mib": max((one.peak_mib for one in seen), default=0.0),
        "isolated_peak_mib": max((one.isolated_mib for one in seen), default=0.0),
    }


def _percentile(waits: Sequence[float], part: float) -> float:
    return waits[min(len(waits) - 1, int(len(waits) * part))] if waits else 0.0


def _run(server: Server, hostile: Hostile, seconds: float) -> tuple[Seen, list[float]]:
    """Run one statement beside a victim; return the measurements and the seconds of each wait of the victim."""
    victim = Victim(server)
    connection = server.connect(_READER if hostile.route == "policy" else _ADMIN)
    cursor = connection.cursor()
    try:
        with server.connect() as first, first.cursor() as prepared:
            for statement in hostile.setup:
                prepared.execute(statement)
        server.peak_mib()
        victim.start()
        outcome: list[str] = []
        attack = threading.Thread(target=_attack, args=(cursor, hostile, outcome), daemon=True)
        started = time.monotonic()
        attack.start()
        attack.join(seconds)
        cancelled = attack.is_alive()
        if cancelled:
            with suppress(Exception):
                cursor.adbc_cancel()
            attack.join(_GRACE_SECONDS)
        stuck = attack.is_alive()
        took = time.monotonic() - started
        waits = victim.end()
        peak = server.peak_mib()
        time.sleep(_EVERY_SECONDS)  # a killed process needs a moment to end
        died = server.died
        if stuck and not died:
            server.kill()  # otherwise the next statement would be measured beside this one
            attack.join(_GRACE_SECONDS)
    finally:
        for opened in (cursor, connection):
            with suppress(Exception):
                opened.close()
    text = "not cancelled" if stuck else " ".join(outcome)[:90]
    p50, p99 = (_percentile(waits, part) for part in (0.5, 0.99))
    found = (cancelled, p50, p99, waits[-1], victim.failures, peak, victim.isolated_mib, died)
    return Seen(hostile.name, text, took, *found), waits


def _attack(cursor: Any, hostile: Hostile, outcome: list[str]) -> None:
    try:
        if hostile.route == "substrait":
            cursor.adbc_statement.set_substrait_plan(_substrait(hostile.sql))
            handle, _ = cursor.adbc_statement.execute_query()
            pa.RecordBatchReader._import_from_c(handle.address).read_all()  # noqa: SLF001
        elif hostile.parameters:
            cursor.execute(hostile.sql, parameters=hostile.parameters)
            cursor.fetchall()
        else:
            cursor.execute(hostile.sql)
            cursor.fetchall()
        outcome.append("answered")
    except Exception as error:  # noqa: BLE001 - whatever the driver raises is the outcome
        outcome.append(str(error).replace("\n", " "))


def _substrait(sql: str) -> bytes:
    context = SessionContext()
    for name in TABLES:  # with nullable columns, as on the server
        context.sql(f"CREATE TABLE {name} (n BIGINT, s VARCHAR)").collect()
    return Producer.to_substrait_plan(context.sql(sql).logical_plan(), context).encode()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
