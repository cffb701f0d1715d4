"""A sandbox process, as the server's process controls it."""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, suppress

import pyarrow as pa
import structlog

from flightllm import errors
from flightllm.common.limits import over_limit
from flightllm.common.names import STORED_SUFFIX
from flightllm.datafusion.errors import panicked
from flightllm.errors import FlightLLMError, InternalError, check_cancelled
from flightllm.sandbox.memory import memory_of
from flightllm.sandbox.tasks import MessageKind, Setup, Task
from flightllm.sandbox.wire import HEADER_BYTES, PIECE_BYTES, decoded, encoded, header, send

Functions = Mapping[str, Callable[..., pa.Array]]
_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from flightllm.common.pandas_import import put_off_pandas
put_off_pandas()
from flightllm.sandbox.child import main
main(*map(int, sys.argv[2:5]))
"""
_POLL_SECONDS = 0.1
_READY_SECONDS = 60.0
_GRACE_SECONDS = 5.0
_TOLD = 4_000
"""The number of characters of a dead process's last output to read and log."""
_NO_MEMORY = (
    *("memory allocation of", "memory allocation failed", "failed to allocate"),
    *("MemoryError", "bad_alloc", "Cannot allocate memory"),
)
"""The messages of Rust, C++ and Python about a failed allocation."""
_log = structlog.get_logger(__name__)


class Process:
    """A sandbox process. One thread uses it at a time; any thread can call `kill`."""

    def __init__(self, setup: Setup) -> None:
        """Start the process, which then prepares itself in parallel.

        Raises:
            OSError: the system cannot start another process.
        """
        self._limits = setup.limits
        self._reason: FlightLLMError | None = None
        self._killed = False
        self._lock = threading.Lock()
        with ExitStack() as opened:
            self._link, theirs = (opened.enter_context(end) for end in socket.socketpair())
            life, alive = os.pipe()
            opened.callback(os.close, alive)
            self._said = opened.enter_context(tempfile.TemporaryFile())
            descriptors = (theirs.fileno(), life)
            try:
                self._process = subprocess.Popen(  # noqa: S603 - runs this same interpreter
                    [
                        *(sys.executable, "-P", "-c", _BOOT, json.dumps(sys.path)),
                        *(*map(str, descriptors), str(os.getpid()), "flightllm-isolated"),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=self._said,
                    stderr=self._said,
                    pass_fds=descriptors,
                )
            finally:
                theirs.close()
                os.close(life)
            opened.pop_all()
        self._alive = alive
        self._link.settimeout(_POLL_SECONDS)
        self.ready = False
        """Whether the process has sent `READY`; a process can be ready before this is read."""
        self.idle_bytes = 0
        """The process's memory in bytes before its task."""
        with suppress(OSError):
            self._send(MessageKind.TASK, pickle.dumps(setup), lambda: False)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the process runs and was not killed."""
        return not self._killed and self._process.poll() is None

    @property
    def grown_bytes(self) -> int:
        """Return how many bytes the process's memory has grown since its task began."""
        return max(0, memory_of(self.pid) - self.idle_bytes)

    def await_ready(self, cancelled: Callable[[], bool]) -> None:
        """Wait until the process can run tasks.

        Raises:
            CancelledError: `cancelled()` turned true.
            InternalError: the process died.
        """
        if not self.ready:
            self._receive(cancelled)
            self.ready = True
            self.idle_bytes = memory_of(self.pid)

    def run(
        self, task: Task, functions: Functions, cancelled: Callable[[], bool], spilled: Callable[[int], None]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of a task; if this ends early, it kills the process.

        Raises:
            CancelledError: `cancelled()` turned true; noticed within 100 ms.
            LimitExceededError: the task took too much memory.
            FlightLLMError: the task fails.
        """
        ended = False
        try:
            self._send(MessageKind.TASK, pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL), cancelled)
            while True:
                kind, body = self._receive(cancelled)
                match kind:
                    case MessageKind.ROWS:
                        yield decoded(body)[0]
                    case MessageKind.CALL:
                        self._answer(body, functions, cancelled)
                    case MessageKind.DONE:
                        ended = True
                        spilled(int(json.loads(body.to_pybytes())["spilled"]))
                        return
                    case MessageKind.FAILED:
                        ended = True
                        raise self._failure(json.loads(body.to_pybytes()))
                    case _:
                        raise InternalError("internal error")
        finally:
            if not ended:
                self.kill()

    def kill(self, reason: FlightLLMError | None = None) -> None:
        """Kill the process; its task then raises `reason`, if given. Idempotent."""
        with self._lock:
            self._reason = self._reason or reason
            self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()

    def close(self) -> None:
        """Kill the process and release its resources. Idempotent."""
        self.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        self._link.close()
        self._said.close()
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    def _answer(self, body: pa.Buffer, functions: Functions, cancelled: Callable[[], bool]) -> None:
        batch, name = decoded(body)
        try:
            values = functions[name](*batch.columns)
        except Exception as error:  # noqa: BLE001 - the process gets the error, and its query fails
            self._send(MessageKind.FAILED, json.dumps({"message": str(error)}).encode(), cancelled)
        else:
            self._send(MessageKind.VALUES, encoded(pa.RecordBatch.from_arrays([values], ["values"])), cancelled)

    def _send(self, kind: MessageKind, body: bytes | pa.Buffer, cancelled: Callable[[], bool]) -> None:
        view = memoryview(body)
        try:
            send(_Patient(self._link, cancelled), kind, view)  # type: ignore[arg-type]
        except (BrokenPipeError, ConnectionError) as error:
            raise self._death() from error

    def _receive(self, cancelled: Callable[[], bool]) -> tuple[MessageKind, pa.Buffer]:
        kind, size = header(self._exactly(HEADER_BYTES, cancelled).to_pybytes())
        most = self._limits.memory_bytes // 8 + 2 * PIECE_BYTES
        if size > most:
            found = f"a row of the result has about {size:,} bytes"
            raise over_limit("memory_bytes", self._limits.memory_bytes, found, "ask for shorter values")
        return kind, self._exactly(size, cancelled)

    def _exactly(self, size: int, cancelled: Callable[[], bool]) -> pa.Buffer:
        data = pa.allocate_buffer(size)
        view = memoryview(data)
        while view:
            check_cancelled(cancelled)
            try:
                got = self._link.recv_into(view)
            except TimeoutError:
                continue
            except OSError:
                got = 0
            if not got:
                raise self._death()
            view = view[got:]
        return data

    def _death(self) -> FlightLLMError:
        """Return the error that explains why the process is gone."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        if self._reason is not None:
            return self._reason
        code = self._process.returncode
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace")[-_TOLD:]
        _log.warning("sandbox process died", exit=code, said=said)
        if code == -signal.SIGKILL or _lacks_memory(said):
            return self._no_memory()
        return panicked()

    def _failure(self, told: Mapping[str, str]) -> FlightLLMError:
        """Return a task's error, rebuilt from its name and text."""
        kind, message = getattr(errors, told["error"], None), told["message"].replace(STORED_SUFFIX, "")
        if not (isinstance(kind, type) and issubclass(kind, FlightLLMError)):
            kind = InternalError
        if not told["limit"] and _lacks_memory(message):
            return self._no_memory()
        error: FlightLLMError = kind(message)
        error.limit = told["limit"]
        return error

    def _no_memory(self) -> FlightLLMError:
        found, instead = (
            "the statement needs more memory than the limit allows",
            "ask for fewer or shorter values at once",
        )
        return over_limit("memory_bytes", self._limits.memory_bytes, found, instead)


def _lacks_memory(said: str) -> bool:
    return any(sign in said for sign in _NO_MEMORY)


class _Patient:
    """A socket whose `sendall` checks for cancellation while it waits."""

    def __init__(self, link: socket.socket, cancelled: Callable[[], bool]) -> None:
        self._link = link
        self._cancelled = cancelled

    def sendall(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            check_cancelled(self._cancelled)
            try:
                view = view[self._link.send(view) :]
            except TimeoutError:
                continue
