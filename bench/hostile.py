"""Run hostile statements and crowds of connections, and measure their effect on another user's SELECT 1.

    python -m bench.hostile [--json] [--only NAME] [--seconds 20] [--connections 1,8]

A real server process runs with default limits on the fake engine, in a control group of 6 GiB if the system allows it.
Elsewhere it can reserve 12 GiB of addresses beyond those of its start, so that it cannot take the machine down. Each
kind runs on one connection, or on as many at once as `--connections` says; a crowd has a number of its own. The clients
cancel after `--seconds`. An administrator attacks. A hostile row filter or mask is set for another user, whose query it
slows down. The victim is a third user. A control server without any attack shows how busy the machine is.

The output has one line for each kind:

- how it ended
- the victim's 99th percentile and maximum in seconds, and its failures; the control server's maximum
- the seconds after the attack until the victim is served as before
- the peak memory of the server's process and of its isolated processes, and the memory after the attack, in MiB
- whether the server died; a new server starts in this case

With `--json` the last line is one object with the figures over all kinds. The exit code is 1 if one of these is
true, except where the control server's maximum shows that the machine itself was busy:

- the victim's 99th percentile is over half a second, or its maximum is over two
- a statement of the victim failed, or it was not served as before within a minute
- the server's process died
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
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from datafusion import SessionContext
from datafusion.substrait import Producer

from bench.common import machine, quantile
from bench.hostile_crowds import CROWDS, Crowd
from flightllm.access.store import AccessStore, User
from flightllm.sql.grants import Grant
from tests.hostile import HOSTILE, READER, TABLES, Hostile

_SCRIPT = """
import sys
from pathlib import Path
from flightllm.config import Config, EngineConfig, LogConfig, RecoveryConfig, ServerConfig
from flightllm.log import configure_logging
from flightllm.server.serve import serve
configure_logging(LogConfig())  # on standard error: a log line could tear the line `listening` apart
serve(Config(server=ServerConfig("127.0.0.1:0"), engine=EngineConfig(kind="fake"), data_folder=Path(sys.argv[1]),
             recovery=RecoveryConfig(on_engine_down="fail")))
"""
_EVERY_SECONDS = 0.05
_P99_SECONDS, _MOST_SECONDS = 0.5, 2.0
_BUSY_SECONDS = 0.5
"""Where the control server took longer for an answer, the machine was busy with other work."""
_CONTAINER_BYTES = 6 << 30
_MORE_ADDRESSES = 12 << 30
"""Bytes of addresses that the server can reserve beyond those of its idle state, without a control group."""
_ADMIN, _READER, _VICTIM = "ann", READER, "eve"
_GRACE_SECONDS = 20.0
"""Seconds that a cancelled statement has to end before the server is killed."""
_BACK_SECONDS, _QUICK_SECONDS, _QUICK_ANSWERS = 60.0, 0.1, 5
"""After an attack, so many answers in a row must be quick within a minute."""
_GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/memory"))
"""Where control groups can be: version 2, then version 1."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The measurements of one kind."""

    name: str
    connections: int
    outcome: str
    seconds: float
    cancelled: bool
    """Whether the client had to cancel the statement."""
    p50: float
    p99: float
    worst: float
    """The 50th and 99th percentile and the maximum of the victim's statements, in seconds."""
    control: float
    """The maximum of the control server's statements, in seconds."""
    failures: int
    """The number of the victim's statements that failed."""
    back_seconds: float
    """The seconds after the attack until the victim was served as before; -1 if it never was."""
    peak_mib: float
    isolated_mib: float
    after_mib: float
    """The memory of the server's process once the victim was served as before."""
    died: bool

    @property
    def held(self) -> bool:
        """Return whether the server still served others within the limits."""
        served = self.p99 <= _P99_SECONDS and self.worst <= _MOST_SECONDS
        back = not self.failures and self.back_seconds >= 0
        return (served or self.control > _BUSY_SECONDS) and back and not self.died


class Group:
    """A control group that limits the memory of a server's processes together, where the system lets us make one."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        for parent, limit in zip(_GROUPS, ("memory.max", "memory.limit_in_bytes"), strict=True):
            folder = parent / f"flightllm-hostile-{os.getpid()}"
            with suppress(OSError):
                folder.mkdir()
                try:
                    (folder / limit).write_text(str(_CONTAINER_BYTES))
                except OSError:  # no group for memory
                    folder.rmdir()
                    continue
                self.folder = folder
                return

    def command(self, command: Sequence[str]) -> list[str]:
        """Return a command that runs another one inside the group."""
        if self.folder is None:
            return list(command)
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def close(self) -> None:
        """Remove the group, whose processes have ended."""
        if self.folder is not None:
            with suppress(OSError):  # an ended process can need a moment
                self.folder.rmdir()


class Server:
    """A server process with the tables that the statements read."""

    def __init__(self, folder: Path, group: Group | None = None) -> None:
        store = AccessStore(folder / "access.sqlite")
        for user in (User(_ADMIN, "admin"), User(_READER, "user"), User(_VICTIM, "user")):
            if user.name not in store.snapshot().users:
                store.add_user(user)
        store.grant([Grant(_READER, "SELECT", "TABLE", "public", name) for name in TABLES])
        self._tokens = {name: store.add_token(name) for name in (_ADMIN, _READER, _VICTIM)}
        store.close()
        command = [sys.executable, "-c", _SCRIPT, str(folder)]
        command = group.command(command) if group else command
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = iter(self.process.stdout or ())
        self.uri = next(line for line in lines if line.startswith("listening ")).removeprefix("listening ").strip()
        with self.connect() as connection, connection.cursor() as cursor:
            for name, statement in TABLES.items():
                cursor.execute(statement.replace(f"TABLE {name}", f"OR REPLACE TABLE {name}"))
        if group is None or group.folder is None:
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

    def status_mib(self, field: str) -> float:
        """Return a field of the process's status, in MiB: `VmHWM` is the peak memory, `VmRSS` the present memory."""
        with suppress(OSError, IndexError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            return int(status.partition(f"{field}:")[2].split()[0]) / 1024
        return 0.0

    def peak_mib(self) -> float:
        """Return the peak memory of the process since the last call, in MiB."""
        found = self.status_mib("VmHWM")
        with suppress(OSError):
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
        with self._server.connect(_VICTIM) as connection, connection.cursor() as cursor:
            while not self._ended.wait(_EVERY_SECONDS):
                self.isolated_mib = max(self.isolated_mib, self._server.isolated_mib())
                self._asked = time.monotonic()
                cursor.execute("SELECT 1")
                cursor.fetchall()
                self.seconds.append(time.monotonic() - self._asked)
                self._asked = None

    def waits(self) -> list[float]:
        """Return the seconds of each answer so far in ascending order, with the one that is waited for."""
        waiting = [] if self._asked is None else [time.monotonic() - self._asked]
        return sorted([*self.seconds, *waiting]) or [0.0]

    def await_quick(self) -> float:
        """Return the seconds until several answers in a row are quick, or -1 after a minute."""
        started, before = time.monotonic(), len(self.seconds)
        while time.monotonic() - started < _BACK_SECONDS:
            latest = self.seconds[before:][-_QUICK_ANSWERS:]
            if len(latest) == _QUICK_ANSWERS and max(latest) <= _QUICK_SECONDS:
                return time.monotonic() - started
            time.sleep(_EVERY_SECONDS)
        return -1.0

    def end(self) -> None:
        """Stop asking."""
        self._ended.set()
        self.join(_GRACE_SECONDS)


class Attack:
    """One kind on some connections at once, until `stop`."""

    def __init__(self, server: Server, kind: Hostile | Crowd, connections: int) -> None:
        user = _READER if isinstance(kind, Hostile) and kind.route == "policy" else _ADMIN
        self._kind = kind
        self._once = isinstance(kind, Hostile) and connections == 1
        self._connections = [server.connect(user) for _ in range(connections)]
        self._cursors = [connection.cursor() for connection in self._connections]
        self._stopped = threading.Event()
        self.outcomes: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(cursor,), daemon=True) for cursor in self._cursors]
        self._sql = kind.sql() if isinstance(kind, Crowd) else kind.sql

    def start(self) -> None:
        """Start all connections."""
        for thread in self._threads:
            thread.start()

    def await_end(self, seconds: float) -> bool:
        """Wait until all connections have ended; return whether they have."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Cancel what runs. Does not wait."""
        self._stopped.set()
        for cursor, thread in zip(self._cursors, self._threads, strict=True):
            if thread.is_alive():
                with suppress(Exception):
                    cursor.adbc_cancel()

    def close(self) -> None:
        """Close the connections."""
        for opened in (*self._cursors, *self._connections):
            with suppress(Exception):
                opened.close()

    def _run(self, cursor: Any) -> None:
        again = True
        while again and not self._stopped.is_set():
            try:
                self._attack(cursor)
                self.outcomes.append("answered")
            except Exception as error:  # noqa: BLE001 - whatever the driver raises is the outcome
                self.outcomes.append(str(error).replace("\n", " "))
                self._stopped.wait(_EVERY_SECONDS)
            again = not self._once

    def _attack(self, cursor: Any) -> None:
        if isinstance(self._kind, Crowd):
            self._kind.attack(cursor, self._sql, self._stopped)
            return
        if self._kind.route == "substrait":
            cursor.adbc_statement.set_substrait_plan(_substrait(self._sql))
            handle, _ = cursor.adbc_statement.execute_query()
            pa.RecordBatchReader._import_from_c(handle.address).read_all()  # noqa: SLF001
        else:
            cursor.execute(self._sql, parameters=self._kind.parameters or None)
            cursor.fetch_arrow_table()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--only", default="", help="run only kinds whose names contain this text")
    parser.add_argument("--crowds", action="store_true", help="run only the kinds that need several connections")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds until a kind is cancelled")
    parser.add_argument("--connections", default="1,8", help="how many connections run a kind at once")
    chosen = parser.parse_args(arguments)
    numbers = [int(number) for number in chosen.connections.split(",")]
    kinds = [kind for kind in (*CROWDS, *(() if chosen.crowds else HOSTILE)) if chosen.only in kind.name]
    all_seen: list[Seen] = []
    all_waits: list[float] = []
    print(
        f"{'kind':32} {'n':>3} {'s':>6} {'p99 s':>6} {'max s':>6} {'ctrl s':>6} {'back s':>6} {'MiB':>6} {'others':>6}"
        f" {'after':>6} fail died outcome",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder, closing(Group()) as group:
        servers = _servers(Path(folder, "attacked"), group)
        control = next(_servers(Path(folder, "control")))
        server = next(servers)
        idle = server.status_mib("VmRSS")
        for kind, number in ((kind, number) for kind in kinds for number in numbers):
            server = next(servers) if server.died else server
            seen, waits = _run(server, control, kind, number, chosen.seconds)
            all_seen.append(seen)
            all_waits += waits
            print(_line(seen), flush=True)
        after = server.status_mib("VmRSS")
        for one in (server, control):
            one.kill()
    harmful = [f"{seen.name}, {seen.connections} connections" for seen in all_seen if not seen.held]
    print(f"{len(harmful)} of {len(all_seen)} kinds harmed others; memory {idle:.0f} MiB before and {after:.0f} after")
    if chosen.json:
        figures = {**_figures(all_seen, all_waits), "idle_mib": idle, "after_mib": after}
        figures |= {"harmful": harmful, "statements": list(map(asdict, all_seen))}
        print(json.dumps({"bench": "hostile", **figures, "machine": machine()}))
    return int(bool(harmful))


def _servers(folder: Path, group: Group | None = None) -> Iterator[Server]:
    """Yield servers over a data folder, each for when the one before has died."""
    folder.mkdir()
    while True:
        yield Server(folder, group)


def _line(seen: Seen) -> str:
    return (
        f"{seen.name:32} {seen.connections:3} {seen.seconds:6.1f} {seen.p99:6.2f} {seen.worst:6.2f} {seen.control:6.2f}"
        f" {seen.back_seconds:6.1f} {seen.peak_mib:6.0f} {seen.isolated_mib:6.0f} {seen.after_mib:6.0f}"
        f" {seen.failures:4} {'yes ' if seen.died else 'no  '} {seen.outcome}"
    )


def _figures(seen: Sequence[Seen], waits: Sequence[float]) -> dict[str, Any]:
    """Return the figures over all kinds."""
    waits = sorted(waits)
    return {
        "hostile": len(seen),
        "answers": len(waits),
        "p50": quantile(waits, 0.5),
        "p99": quantile(waits, 0.99),
        "max": waits[-1] if waits else 0.0,
        "worst_p99": max((one.p99 for one in seen), default=0.0),
        "control_max": max((one.control for one in seen), default=0.0),
        "back_max": max((one.back_seconds for one in seen), default=0.0),
        "failures": sum(one.failures for one in seen),
        "deaths": sum(one.died for one in seen),
        "stalled": sum(one.cancelled for one in seen),
        "peak_mib": max((one.peak_mib for one in seen), default=0.0),
        "isolated_peak_mib": max((one.isolated_mib for one in seen), default=0.0),
    }


def _run(
    server: Server, control: Server, kind: Hostile | Crowd, number: int, seconds: float
) -> tuple[Seen, list[float]]:
    """Run one kind beside a victim; return the measurements and the seconds of each wait of the victim."""
    _prepare(server, kind)
    victim, calm = Victim(server), Victim(control)
    attack = Attack(server, kind, max(number, kind.connections if isinstance(kind, Crowd) else 1))
    try:
        server.peak_mib()
        victim.start()
        calm.start()
        started = time.monotonic()
        attack.start()
        cancelled = not attack.await_end(seconds)
        attack.stop()
        stuck = not attack.await_end(_GRACE_SECONDS)
        took = time.monotonic() - started
        waits, control_waits = victim.waits(), calm.waits()
        back = victim.await_quick() if not stuck and not server.died else -1.0
        for one in (victim, calm):
            one.end()
        peak, after = server.peak_mib(), server.status_mib("VmRSS")
        died = server.died
        if stuck and not died:
            server.kill()  # otherwise the next kind would be measured beside this one
            attack.await_end(_GRACE_SECONDS)
    finally:
        attack.close()
    text = "not cancelled" if stuck else " ".join(dict.fromkeys(attack.outcomes))[:90]
    p50, p99 = (quantile(waits, part) for part in (0.5, 0.99))
    found = (cancelled, p50, p99, waits[-1], control_waits[-1], victim.failures, back)
    memory = (peak, victim.isolated_mib, after, died)
    return Seen(kind.name, max(number, getattr(kind, "connections", 1)), text, took, *found, *memory), waits


def _prepare(server: Server, kind: Hostile | Crowd) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in kind.setup:
            cursor.execute(statement)


def _substrait(sql: str) -> bytes:
    context = SessionContext()
    for name in TABLES:  # with nullable columns, as on the server
        context.sql(f"CREATE TABLE {name} (n BIGINT, s VARCHAR)").collect()
    return Producer.to_substrait_plan(context.sql(sql).logical_plan(), context).encode()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
