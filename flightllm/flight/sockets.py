"""Socket settings that gRPC does not offer in Python: errors for ports in use, and TCP keep-alive."""

import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from flightllm.errors import ConfigError

_PROBES = 3


@contextmanager
def told_where(listen: str, option: str) -> Iterator[None]:
    """Add the address, and the option that sets it, to the error of a server that does not start.

    Raises:
        ConfigError: the server did not start.
    """
    try:
        yield
    except pa.ArrowException as error:
        if "did not start" not in str(error):
            raise
        raise ConfigError(
            f"cannot listen on {listen}: the port is in use, or the address is not of this machine; change {option}"
        ) from error


def keep_alive(port: int, seconds: int) -> None:
    """Close connections to `port` of this process that have not answered for `seconds`; 0 changes nothing.

    Accepted connections inherit the options of the socket that listens. Linux only: on other systems the operating
    system's default of hours applies.
    """
    if not seconds or sys.platform != "linux":
        return
    for listener in own_sockets():
        if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and listener.getsockname()[1] == port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, seconds // 2))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, seconds // (2 * _PROBES)))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1_000 * seconds)


def own_sockets() -> Iterator[socket.socket]:
    """Yield the internet sockets of this process, each as a duplicate that is closed before the next one."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            if not stat.S_ISSOCK(entry.stat().st_mode):
                continue
            duplicate = os.dup(int(entry.name))
        except OSError:  # closed meanwhile
            continue
        with socket.socket(fileno=duplicate) as found:
            if found.family in {socket.AF_INET, socket.AF_INET6}:
                yield found
