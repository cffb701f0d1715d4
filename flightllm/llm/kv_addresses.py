"""The ZeroMQ addresses at which engines tell of their prefix caches."""

from __future__ import annotations

import re
from typing import Final

_TCP: Final = re.compile(r"tcp://(?P<host>[^\s/:*]+|\[[0-9A-Fa-f:.]+\]|\*):(?P<port>\d{1,5})")
_IPC: Final = re.compile(r"ipc://.+", re.DOTALL)
_PORTS: Final = range(1, 65_536)


def check_heard(name: str, address: str) -> None:
    """Raise `ValueError` for what nobody can subscribe at; an empty address is none."""
    if not _fits(address, anywhere=False):
        raise ValueError(f"{name}: an address to connect to, as tcp://HOST:PORT or ipc://PATH; not {address!r}")


def check_told(name: str, address: str) -> None:
    """Raise `ValueError` for what vLLM does not listen at: it would connect to another host's address."""
    if not _fits(address, anywhere=True):
        raise ValueError(f"{name}: an address to listen at, as tcp://*:5557 or ipc:///a/path; not {address!r}")


def _fits(address: str, *, anywhere: bool) -> bool:
    tcp = _TCP.fullmatch(address)
    if tcp is None:
        return not address or _IPC.fullmatch(address) is not None
    return (tcp["host"] == "*") is anywhere and int(tcp["port"]) in _PORTS
