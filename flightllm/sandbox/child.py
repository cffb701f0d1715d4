"""The sandbox process that runs tasks: warm before it is needed, and ended when the server's process ends."""

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
from flightllm.sandbox.tasks import MessageKind, Setup, Task
from flightllm.sandbox.wire import decoded, encoded, pieces, receive, send

_NICE = 10
"""The priority of this process, below the server's."""
_PR_SET_PDEATHSIG = 1
_SPARE_ADDRESSES = 8 << 30
"""Addresses in addition to the memory limit, because allocators reserve more than they use."""
_ROW_PART = 8
"""One row can take this part of the query's `memory_bytes`: 8 means an eighth."""


def main(link_descriptor: int, life_descriptor: int, parent: int) -> None:
    """Run tasks one after another until the server's end closes; the arguments are two descriptors and a process id."""
    _tie_to(parent, life_descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the server
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    faulthandler.enable()
    from flightllm.sandbox import running
    from flightllm.storage.objects import ObjectStores

    link = socket.socket(fileno=link_descriptor)
    with suppress(EOFError, OSError):  # the server's process has closed the link
        _, data = receive(link)
        setup: Setup = pickle.loads(data)  # noqa: S301 - the server itself has pickled it
        _bound_addresses(setup)
        stores = ObjectStores(setup.storage)
        worker = _Worker(link, setup)
        os.nice(_NICE)
        send(link, MessageKind.READY)
        while True:
            _, data = receive(link)
            task: Task = pickle.loads(data)  # noqa: S301 - the server itself has pickled it
            try:
                spilled = running.run(task, setup, stores, worker.call, worker.rows)
            except (EOFError, BrokenPipeError, ConnectionError):
                raise
            except BaseException as error:  # noqa: BLE001 - the server raises it for the waiting query
                worker.failed(error)
            else:
                send(link, MessageKind.DONE, json.dumps({"spilled": spilled}).encode())
    os._exit(0)


class _Worker:
    """Sends a task's rows, calls and errors to the server's process."""

    def __init__(self, link: socket.socket, setup: Setup) -> None:
        self._link = link
        self._sending = threading.Lock()
        self._calling = threading.Lock()
        self._most = setup.limits.memory_bytes // _ROW_PART or 1
        self._limit = setup.limits.memory_bytes

    def rows(self, batch: pa.RecordBatch) -> None:
        """Send rows in pieces; blocks until the server reads them."""
        for piece in pieces(batch):
            body = encoded(piece)
            if body.size > self._most and piece.num_rows == 1:
                found = f"a row of the result has {piece.nbytes:,} bytes"
                raise over_limit(
                    "memory_bytes",
                    self._limit,
                    found,
                    "ask for shorter values: a value can have an eighth of the limit",
                )
            with self._sending:
                send(self._link, MessageKind.ROWS, body)

    def call(self, name: str, arguments: Sequence[pa.Array]) -> pa.Array:
        """Ask the server for a function's values, and return them."""
        batch = pa.RecordBatch.from_arrays(list(arguments), [str(index) for index in range(len(arguments))])
        with self._calling:
            with self._sending:
                send(self._link, MessageKind.CALL, encoded(batch, name))
            kind, data = receive(self._link)
        if kind is MessageKind.FAILED:
            told = json.loads(data)
            raise SqlError(told["message"])
        return decoded(data)[0].column(0)

    def failed(self, error: BaseException) -> None:
        """Send the error that ended the task."""
        known = error if isinstance(error, FlightLLMError) else InternalError("internal error")
        if known is not error:
            sys.excepthook(type(error), error, error.__traceback__)
        told = {"error": type(known).__name__, "message": str(known), "limit": known.limit}
        with self._sending:
            send(self._link, MessageKind.FAILED, json.dumps(told).encode())


def _tie_to(parent: int, life: int) -> None:
    """End this process when its parent ends."""
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
    """Make allocations fail far above the ceiling, in case the server no longer watches this process."""
    with suppress(OSError, ValueError):
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = now + 2 * memory_ceiling(setup.limits.memory_bytes) + _SPARE_ADDRESSES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
