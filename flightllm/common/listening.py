"""Addresses on which servers of this process listen."""

import socket
from ipaddress import ip_address

from flightllm.errors import ConfigError


def listen_on(host: str, port: int, key: str, instead: str = "", backlog: int | None = None) -> socket.socket:
    """Return a socket that listens on an address of this machine; port 0 means any free port.

    `key` is the option that has the address, and `instead` says in an error where to write another one.

    Raises:
        ConfigError: the address is in use, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        where = f"{key}: cannot listen on {shown_host(host)}:{port}: {error.strerror}"
        raise ConfigError(f"{where}; {instead}" if instead else where) from error


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return host.lower() == "localhost"


def shown_host(host: str) -> str:
    """Return a host as addresses write it: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host
