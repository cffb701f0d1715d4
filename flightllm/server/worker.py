"""The server's process under a supervisor: warm before it is needed, and gone as soon as its supervisor is."""

import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection

from flightllm.config import Config
from flightllm.errors import FlightLLMError
from flightllm.log import configure_logging
from flightllm.recovery.journal import Journal
from flightllm.recovery.messages import Alive, Failed, Lifted, Message, Start
from flightllm.recovery.quarantine import Quarantine

_BEAT_SECONDS = 1.0


def main(supervisor: int, journal: int) -> None:
    """Import everything, wait to be started, and serve; the arguments are descriptors."""
    link = _Link(Connection(supervisor))
    config: Config = link.receive()
    configure_logging(config.log)
    faulthandler.enable()  # a crash leaves the threads' tracebacks in the log
    from flightllm.recovery.watch import Watch
    from flightllm.server.serve import run

    start: Start = link.receive()
    threading.Thread(target=link.receive, name="supervisor", daemon=True).start()
    threading.Thread(target=_beat, args=(link,), name="heartbeat", daemon=True).start()
    try:
        run(
            replace(config, server=replace(config.server, listen=start.listen)),
            link.send,
            Watch(Journal(journal), Quarantine(start.refused, lambda key: link.send(Lifted(key)))),
            restarted=start.restarted,
        )
    except FlightLLMError as error:
        _give_up(link, str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _give_up(link, f"{error.filename}: {error.strerror}")


class _Link:
    """The worker's end of the connection. Any thread may send, one receives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Tell the supervisor something."""
        with self._lock:
            self._connection.send(message)

    def receive(self) -> Message:
        """Wait for the supervisor's next message.

        Where the supervisor has ended, this process ends too, with those that it started, which may hold a GPU.
        """
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)


def _beat(link: _Link) -> None:
    """Say that threads get their turns: nothing else tells of one that never gives the interpreter back."""
    with suppress(OSError):  # the supervisor has ended, and this process does too
        while True:
            link.send(Alive())
            time.sleep(_BEAT_SECONDS)


def _give_up(link: _Link, message: str) -> None:
    link.send(Failed(message))
    sys.exit(1)
