"""Sends messages between the supervisor and a server's process; a message can carry file descriptors."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import recvfds, sendfds
from typing import TypeAlias

from flightllm.recovery.messages import Handed, Message, StartServer

Sender: TypeAlias = Callable[[Message], None]
"""Sends a message to the other process."""


def send(connection: Connection, message: Message) -> None:
    """Send a message, and copies of its descriptors.

    Raises:
        OSError: the other process has ended.
    """
    connection.send(message)
    handed = _handed(message)
    if handed is not None and handed.descriptors:
        with _socket_of(connection) as carrier:
            sendfds(carrier, list(handed.descriptors))


def receive(connection: Connection) -> Message:
    """Wait for a message; its descriptors are open in this process, which must close them.

    Raises:
        OSError: the other process has ended.
        EOFError: see OSError.
    """
    message = connection.recv()
    handed = _handed(message)
    if handed is None or not handed.descriptors:
        return message
    with _socket_of(connection) as carrier:
        descriptors = tuple(recvfds(carrier, len(handed.descriptors)))
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - has no keyword
    here = replace(handed, descriptors=descriptors)
    return replace(message, handed=here) if isinstance(message, StartServer) else here


def _handed(message: Message) -> Handed | None:
    if isinstance(message, StartServer):
        return message.handed
    return message if isinstance(message, Handed) else None


def _socket_of(connection: Connection) -> socket.socket:
    return socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
