"""A server process as its supervisor holds it."""

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
from flightllm.recovery.messages import Message

_BOOT = """\
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from flightllm.server.worker import main
main(int(sys.argv[2]), int(sys.argv[3]))
"""
"""The same modules as here, whatever the working folder. A new interpreter, as threads do not survive a fork."""
_ALLOCATORS = {"MALLOC_ARENA_MAX": "2", "MIMALLOC_ARENA_PURGE_MULT": "1", "MIMALLOC_PURGE_DELAY": "0"}
"""Of glibc's allocator, which makes 8 for each core: hundreds of threads leave a tenth of the memory free in them.

DataFusion's own, mimalloc, keeps the memory of ended statements for long unless it is to purge its arenas at once. That
costs statements without a model up to a tenth of their CPU time.
"""


class Worker:
    """A server process, warm or serving, the leader of a group with whatever it starts itself."""

    def __init__(self, process: asyncio.subprocess.Process, connection: Connection) -> None:
        self._process = process
        self._connection = connection

    @classmethod
    async def spawn(cls, config: Config, journal: int) -> "Worker":
        """Start a process that makes itself ready to serve.

        Raises:
            OSError: the system has no room for another process.
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
                process_group=0,  # signals of the terminal come to the supervisor alone
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
        """Tell whether the process has not ended, as far as is known."""
        return self._process.returncode is None

    def send(self, message: Message) -> None:
        """Tell the process something; one that is dead does not hear it."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(message)

    async def ended(self) -> int:
        """Wait until the process ends; return its exit code as `follow` does."""
        return await self._process.wait()

    async def follow(self, heard: Callable[[Message], None]) -> int:
        """Hand on what the process says until it ends; return its exit code, minus the signal where one killed it."""
        loop = asyncio.get_running_loop()
        descriptor = self._connection.fileno()

        def receive() -> None:
            try:
                while self._connection.poll():
                    heard(self._connection.recv())
            except (EOFError, OSError):
                loop.remove_reader(descriptor)

        loop.add_reader(descriptor, receive)
        code = await self._process.wait()
        receive()
        loop.remove_reader(descriptor)
        self._connection.close()
        self.kill()
        return code

    def terminate(self) -> None:
        """Ask the process to finish what runs and end."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def abort(self) -> None:
        """End the process by a crash, which leaves the tracebacks of its threads in the log."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGABRT)

    def kill(self) -> None:
        """End the process and whatever it started, an engine on a GPU for example."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
