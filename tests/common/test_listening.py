"""Sockets that listen on an address of this machine."""

import socket

import pytest

from flightllm.common.listening import listen_on, shown_host
from flightllm.errors import ConfigError


def test_listens_and_refuses() -> None:
    """A free port is chosen for port 0; a second server on it gets an error that names the option."""
    with listen_on("127.0.0.1", 0, "[http] listen") as first:
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        with pytest.raises(ConfigError, match=rf"^\[http\] listen: cannot listen on 127.0.0.1:{port}: .*; set another"):
            listen_on("127.0.0.1", port, "[http] listen", "set another address there")


def test_shown_host() -> None:
    """An IPv6 address is in brackets, a name is not."""
    assert (shown_host("::1"), shown_host("localhost")) == ("[::1]", "localhost")
