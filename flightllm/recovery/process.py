"""A server process, as its supervisor controls it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from flightllm.config import Config
from flightllm.recovery.channel import receive, send
from flightllm.recovery.messages import Message

_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from flightllm.server.worker import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
"""Starts a new interpreter, because threads do not survive a fork. It gets the supervisor's `sys.path`."""
_ALLOCATORS = {"MALLOC_ARENA_MAX": "2", "MIMALLOC_ARENA_PURGE_MULT": "1", "MIMALLOC_PURGE_DELAY": "100"}
"""Allocator settings. glibc makes 8 arenas for each core; with hundreds of threads, a tenth of the memory is lost.

DataFusion's allocator, mimalloc, keeps the memory of ended statements unless it purges its arenas early. It waits
100 ms: without the wait, each batch of a scan gets new pages from the kernel, and a stream takes twice as long.
"""


class Worker:
    """A server process, warm or serving. It leads a process group with all processes that it starts."""

    def __init__(self, process: asyncio.subprocess.Process, connection: Connection) -> None:
        self._process = process
        self._connection = connection

    @classmethod
    async def spawn(cls, config: Config, journal: int) -> "Worker":
        """Start a process, which then prepares to serve.

        Raises:
            OSError: the system cannot start another process.
        """
        ours, theirs = Pipe()
        with theirs, ExitStack() as opened:
            opened.callback(ours.close)
            descriptors = (theirs.fileno(), journal)
            arguments = ("-P", "-c", _BOOT, json.dumps(sys.path), *map(str, descriptors), "flightllm-worker")
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=descriptors,
                env=_ALLOCATORS | os.environ,
                process_group=0,  # only the supervisor gets the terminal's signals
            )
            opened.pop_all()
        worker = cls(process, ours)
        worker.send(config)
        return worker

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Return whether the process still runs, as far as is known."""
        return self._process.returncode is None

    def send(self, message: Message) -> None:
        """Send the process a message; a dead process does not get it."""
        with suppress(BrokenPipeError, ConnectionResetError):
            send(self._connection, message)

    async def ended(self) -> int:
        """Wait until the process ends; return its exit code, or minus the signal that killed it."""
        return await self._process.wait()

    async def follow(self, heard: Callable[[Message], None]) -> int:
        """Pass on the process's messages until it ends; return its exit code, or minus the signal that killed it."""
        read = self.listen(heard)
        code = await self._process.wait()
        read()
        asyncio.get_running_loop().remove_reader(self._connection.fileno())
        self._connection.close()
        self.kill()
        return code

    def listen(self, heard: Callable[[Message], None]) -> Callable[[], None]:
        """Pass on the process's messages from now on; return the function that reads those that are there."""
        loop = asyncio.get_running_loop()
        descriptor = self._connection.fileno()

        def read() -> None:
            while True:
                try:
                    if not self._connection.poll():
                        return
                    message = receive(self._connection)
                except (EOFError, OSError, RuntimeError):  # the process has ended, or its descriptors were lost
                    loop.remove_reader(descriptor)
                    return
                heard(message)

        loop.add_reader(descriptor, read)
        return read

    def terminate(self) -> None:
        """Ask the process to finish its queries and end."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def abort(self) -> None:
        """End the process by SIGABRT, so that its threads' tracebacks are in the log."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGABRT)

    def kill(self) -> None:
        """Kill the process and all processes that it started, such as an engine on a GPU."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
