"""Sockets that accept connections, passed from one process of a server to the next.

gRPC cannot listen on a socket that it did not open, and pyarrow switches off SO_REUSEPORT. So a successor's gRPC opens
a port of its own. Then the successor puts the passed socket under the number of gRPC's socket. gRPC waits by epoll,
which knows sockets, not numbers: so the socket gets a new entry there, with the same data. Linux only.
"""

import ctypes
import os
import re
import socket
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flightllm.errors import InternalError

CAN_PASS = sys.platform == "linux"
_DESCRIPTORS, _FACTS = Path("/proc/self/fd"), Path("/proc/self/fdinfo")
_ENTRY = re.compile(r"tfd:\s*(\d+) events:\s*([0-9a-f]+) data:\s*([0-9a-f]+)\s+pos:\S+ ino:([0-9a-f]+)")
_ADD, _REMOVE = 1, 2
"""The operations EPOLL_CTL_ADD and EPOLL_CTL_DEL."""


class _Event(ctypes.Structure):
    """`struct epoll_event`; only x86-64 packs it."""

    _pack_ = 1 if os.uname().machine == "x86_64" else 8
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


def listeners(port: int) -> list[socket.socket]:
    """Return duplicates of the sockets through which gRPC accepts connections to `port`."""
    return [socket.socket(fileno=os.dup(number)) for number in _own(port)]


def replace_listeners(port: int, given: Sequence[socket.socket]) -> None:
    """Let gRPC accept connections from the sockets `given` instead of its own sockets of `port`, which close.

    Raises:
        InternalError: gRPC waits by epoll for fewer sockets of this port than `given`.
    """
    own = _own(port)
    if len(own) < max(1, len(given)):
        raise InternalError(f"the sockets of port {port} cannot be replaced")
    unused = [_private() for _ in range(len(own) - len(given))]
    try:
        for (number, waits), other in zip(own.items(), [*given, *unused], strict=True):
            _replace(number, other.fileno(), waits)
    finally:
        for other in unused:
            other.close()


def close_doors(port: int) -> list[socket.socket]:
    """Accept no further connections to `port`; return its sockets, in which new connections wait for another process.

    Raises:
        InternalError: see `replace_listeners`.
    """
    kept = listeners(port)
    inside = [_private() for _ in kept]
    try:
        replace_listeners(port, inside)
    except BaseException:
        for one in kept:
            one.close()
        raise
    finally:
        for one in inside:
            one.close()
    return kept


def _own(port: int) -> dict[int, Sequence[tuple[int, int, int]]]:
    """Return the sockets through which gRPC accepts connections to a port, each with its entries in epoll."""
    found = {number: list(_waits(number)) for number in _numbers() if _is_listener(number, port)}
    return {number: waits for number, waits in found.items() if waits}  # the others are duplicates


def _replace(number: int, other: int, waits: Sequence[tuple[int, int, int]]) -> None:
    """Put the socket `other` under the descriptor `number`.

    Another process can have the old socket open too. Then closing it here would leave its entry in epoll, and gRPC
    would get its events after it freed the entry's data. So the entry is removed first.
    """
    for poll, _, _ in waits:
        _control(poll, _REMOVE, number, _Event())
    os.dup2(other, number, inheritable=False)
    for poll, events, data in waits:
        _control(poll, _ADD, number, _Event(events, data))


def _control(poll: int, operation: int, number: int, event: _Event) -> None:
    """Call `epoll_ctl`; Python's own `select.epoll` cannot set an entry's data."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.epoll_ctl(poll, operation, number, ctypes.byref(event)):
        raise InternalError(f"epoll_ctl failed: {os.strerror(ctypes.get_errno())}")


def _waits(number: int) -> Iterator[tuple[int, int, int]]:
    """Yield each epoll that waits for a descriptor: the epoll's number, and the entry's events and data."""
    for poll in _numbers():
        try:
            if not str((_DESCRIPTORS / str(poll)).readlink()).endswith("[eventpoll]"):
                continue
            entries = _ENTRY.findall((_FACTS / str(poll)).read_text())
        except OSError:  # closed meanwhile
            continue
        for found, events, data, inode in entries:  # an entry can be of an older socket with the same number
            if int(found) == number and int(inode, 16) == os.fstat(number).st_ino:
                yield poll, int(events, 16), int(data, 16)


def _is_listener(number: int, port: int) -> bool:
    try:
        if not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        duplicate = os.dup(number)
    except OSError:  # closed meanwhile
        return False
    with socket.socket(fileno=duplicate) as found:
        return _accepts(found, port)


def _accepts(one: socket.socket, port: int) -> bool:
    internet = one.family in {socket.AF_INET, socket.AF_INET6}
    return internet and bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and one.getsockname()[1] == port


def _numbers() -> list[int]:
    return sorted(int(entry.name) for entry in _DESCRIPTORS.iterdir())


def _private() -> socket.socket:
    """Return a socket that accepts connections to a port that nobody knows: a stand-in for a socket passed on."""
    made = socket.create_server(("127.0.0.1", 0), backlog=1)
    made.settimeout(0)  # gRPC accepts until nothing waits
    return made
