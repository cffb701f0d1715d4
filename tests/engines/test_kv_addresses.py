"""Addresses that ZeroMQ can be given, and others."""

import pytest

from flightllm.engines.kv_addresses import check_bind_address, check_connect_address


@pytest.mark.parametrize("address", ["", "tcp://host:5557", "tcp://10.0.0.7:1", "tcp://[::1]:65535", "ipc:///run/kv"])
def test_heard(address: str) -> None:
    """A host and a port, or a path, can be subscribed at."""
    check_connect_address("kv_events", address)


@pytest.mark.parametrize(
    "address",
    [
        "host:5557",
        "tcp://host",
        "tcp://host:",
        "tcp://host:port",
        "tcp://host:0",
        "tcp://host:65536",
        "tcp://host:5557/x",
        "tcp://ho st:5557",
        "tcp://:5557",
        "tcp://*:5557",
        "tcp://a:b:5557",
        "http://host:5557",
        "ipc://",
    ],
)
def test_not_heard(address: str) -> None:
    """What ZeroMQ would refuse, or wait for in vain, is refused with the form that is wanted."""
    with pytest.raises(ValueError, match=r"^kv_events: expected .* tcp://HOST:PORT or ipc://PATH; got"):
        check_connect_address("kv_events", address)


def test_told() -> None:
    """An engine listens at a port of all addresses, or at a path."""
    for address in ("", "tcp://*:5557", "ipc:///run/kv"):
        check_bind_address("kv_events", address)
    for address in ("tcp://host:5557", "tcp://*", "tcp://*:*", "*:5557", "tcp://*:0"):
        with pytest.raises(ValueError, match=r"^kv_replay: expected an address to listen at"):
            check_bind_address("kv_replay", address)
