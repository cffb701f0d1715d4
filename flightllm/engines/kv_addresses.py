"""Check the ZeroMQ addresses at which engines publish KV events."""

from __future__ import annotations

import re
from typing import Final

from flightllm.engines.secrets import shown_address

_TCP: Final = re.compile(r"tcp://(?P<host>[^\s/:*]+|\[[0-9A-Fa-f:.]+\]|\*):(?P<port>\d{1,5})")
_IPC: Final = re.compile(r"ipc://.+", re.DOTALL)
_PORTS: Final = range(1, 65_536)


def check_connect_address(name: str, address: str) -> None:
    """Raise `ValueError` unless a client can subscribe to `address`; an empty address is valid."""
    if not _fits(address, anywhere=False):
        raise ValueError(
            f"{name}: expected an address to connect to, tcp://HOST:PORT or ipc://PATH; got {shown_address(address)!r}"
        )


def check_bind_address(name: str, address: str) -> None:
    """Raise `ValueError` unless vLLM can listen at `address`; at an address with a host, vLLM would connect instead."""
    if not _fits(address, anywhere=True):
        raise ValueError(
            f"{name}: expected an address to listen at, tcp://*:PORT or ipc:///PATH; got {shown_address(address)!r}"
        )


def _fits(address: str, *, anywhere: bool) -> bool:
    tcp = _TCP.fullmatch(address)
    if tcp is None:
        return not address or _IPC.fullmatch(address) is not None
    return (tcp["host"] == "*") is anywhere and int(tcp["port"]) in _PORTS
