"""The process that a task runs in: warm before it is needed, and gone as soon as the server's process is."""

import ctypes
import faulthandler
import json
import os
import pickle
import resource
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from flightllm.common.limits import over_limit
from flightllm.errors import FlightLLMError, InternalError, SqlError
from flightllm.sandbox.memory import memory_ceiling
from flightllm.sandbox.tasks import Kind, Setup, Task
from flightllm.sandbox.wire import decoded, encoded, pieces, receive, send

_NICE = 10
"""Statements of others go first."""
_PR_SET_PDEATHSIG = 1
_SPARE_ADDRESSES = 8 << 30
"""Addresses beyond those that a process may fill: allocators reserve more than they use."""
_ROW_PART = 8
"""One row may take this part of what a query's relational work may."""


def main(link_descriptor: int, life_descriptor: int, parent: int) -> None:
    """Serve tasks one after another until the other end is gone; the arguments are descriptors and a process."""
    _tie_to(parent, life_descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal, for the server
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable()
    from flightllm.sandbox import running
    from flightllm.storage.objects import ObjectStores

    link = socket.socket(fileno=link_descriptor)
    with suppress(EOFError, OSError):  # the server's process has no more use for this one
        _, data = receive(link)
        setup: Setup = pickle.loads(data)  # noqa: S301 - by the server itself
        _bound_addresses(setup)
        stores = ObjectStores(setup.storage)
        worker = _Worker(link, setup)
        os.nice(_NICE)
        send(link, Kind.READY)
        while True:
            _, data = receive(link)
            task: Task = pickle.loads(data)  # noqa: S301 - by the server itself
            try:
                spilled = running.run(task, setup, stores, worker.call, worker.rows)
            except (EOFError, BrokenPipeError, ConnectionError):
                raise
            except BaseException as error:  # noqa: BLE001 - told to whoever waits
                worker.failed(error)
            else:
                send(link, Kind.DONE, json.dumps({"spilled": spilled}).encode())
    os._exit(0)


class _Worker:
    """What a task says to the server's process."""

    def __init__(self, link: socket.socket, setup: Setup) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._calling = threading.Lock()
        self._most = setup.limits.memory_bytes // _ROW_PART or 1
        self._limit = setup.limits.memory_bytes

    def rows(self, batch: pa.RecordBatch) -> None:
        """Send rows, some at a time; waits until they are wanted."""
        for piece in pieces(batch):
            body = encoded(piece)
            if body.size > self._most and piece.num_rows == 1:
                found = f"a row of the result has {piece.nbytes:,} bytes"
                raise over_limit("memory_bytes", self._limit, found, "ask for shorter values: one may have an eighth")
            with self._sending:
                send(self._link, Kind.ROWS, body)

    def call(self, name: str, arguments: Sequence[pa.Array]) -> pa.Array:
        """Ask for a function's values."""
        batch = pa.RecordBatch.from_arrays(list(arguments), [str(index) for index in range(len(arguments))])
        with self._calling:
            with self._sending:
                send(self._link, Kind.CALL, encoded(batch, name))
            kind, data = receive(self._link)
        if kind is Kind.FAILED:
            told = json.loads(data)
            raise SqlError(told["message"])
        return decoded(data)[0].column(0)

    def failed(self, error: BaseException) -> None:
        """Tell why there are no more rows."""
        known = error if isinstance(error, FlightLLMError) else InternalError("internal error")
        if known is not error:
            sys.excepthook(type(error), error, error.__traceback__)
        told = {"error": type(known).__name__, "message": str(known), "limit": known.limit}
        with self._sending:
            send(self._link, Kind.FAILED, json.dumps(told).encode())


def _tie_to(parent: int, life: int) -> None:
    """Let this process end with the one that started it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    def wait() -> None:
        with suppress(OSError):
            os.read(life, 1)
        os._exit(0)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
    if os.getppid() != parent:
        os._exit(0)


def _bound_addresses(setup: Setup) -> None:
    """Let allocations fail far beyond the ceiling, should nobody watch it."""
    with suppress(OSError, ValueError):
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = now + 2 * memory_ceiling(setup.limits.memory_bytes) + _SPARE_ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
