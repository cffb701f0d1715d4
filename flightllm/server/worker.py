"""The server's process under a supervisor: warm before it is needed, and ended when its supervisor ends."""

import faulthandler
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from queue import Queue

from flightllm.common.pandas_import import put_off_pandas
from flightllm.common.redaction import redacted
from flightllm.config import Config
from flightllm.errors import FlightLLMError
from flightllm.log import configure_logging, redact_tracebacks
from flightllm.recovery.channel import receive, send
from flightllm.recovery.journal import Journal
from flightllm.recovery.messages import Alive, Failed, Lifted, Message, Opened, StartServer, TakeOver, Warm
from flightllm.recovery.quarantine import Quarantine

_BEAT_SECONDS = 1.0


def main(supervisor: int, journal: int) -> None:
    """Import everything, wait for `StartServer`, and serve; the arguments are file descriptors."""
    link = _Link(Connection(supervisor))
    config: Config = link.receive()
    configure_logging(config.log)
    redact_tracebacks()
    faulthandler.enable()  # a crash leaves the threads' tracebacks in the log
    if not config.functions.folders:  # there are no functions of users, which could pass missing values of pandas
        put_off_pandas()
    from flightllm.recovery.watch import Watch
    from flightllm.server.renewal import Inherited, Renewal
    from flightllm.server.serve import run

    link.send(Warm())
    start: StartServer = link.receive()
    inbox: Queue[Message] = Queue()
    threading.Thread(target=_listen, args=(link, inbox), name="supervisor", daemon=True).start()
    threading.Thread(target=_beat, args=(link,), name="heartbeat", daemon=True).start()

    def await_turn() -> None:
        link.send(Opened())
        while not isinstance(inbox.get(), TakeOver):
            pass

    try:
        run(
            replace(config, server=replace(config.server, listen=start.listen)),
            link.send,
            Watch(Journal(journal), Quarantine(start.refused, lambda key: link.send(Lifted(key)))),
            restarted=start.restarted,
            renewal=Renewal(config.recovery, link.send, inbox),
            inherited=None if start.handed is None else Inherited.of(start.handed, await_turn),
        )
    except FlightLLMError as error:
        _give_up(link, str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _give_up(link, f"{error.filename}: {error.strerror}")


class _Link:
    """The worker's end of the connection. Any thread can send; one thread receives."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send the supervisor a message."""
        with self._lock:
            send(self._connection, message)

    def receive(self) -> Message:
        """Wait for the supervisor's next message.

        If the supervisor has ended, kill this process with all processes that it started, which can hold a GPU.
        """
        try:
            return receive(self._connection)
        except (EOFError, OSError):
            os.killpg(0, signal.SIGKILL)


def _listen(link: _Link, inbox: "Queue[Message]") -> None:
    """Put the supervisor's messages into the inbox."""
    while True:
        inbox.put(link.receive())


def _beat(link: _Link) -> None:
    """Send `Alive` regularly. Only this reveals a thread that never releases Python's interpreter lock."""
    with suppress(OSError):  # the supervisor has ended, so this process ends, too
        while True:
            link.send(Alive())
            time.sleep(_BEAT_SECONDS)


def _give_up(link: _Link, message: str) -> None:
    link.send(Failed(redacted(message)))  # the supervisor does not know the secrets of this process
    sys.exit(1)
