"""Sessions are shared fairly: whoever has most makes room for others."""

import socket
from itertools import count

import pytest

from flightllm.common.principal import Principal
from flightllm.errors import BusyError, NotFoundError
from flightllm.flight import sessions
from flightllm.flight.auth import CallerContext
from flightllm.flight.connections import connected_ports
from flightllm.flight.limits import FlightLimits
from flightllm.flight.sessions import SessionStore
from tests.flight.support import TinyDatabase

PEERS = count()
ANN, BOB, EVE = (Principal(name, "readonly") for name in ("ann", "bob", "eve"))


def opened(store: SessionStore, user: Principal, number: int = 1) -> list[str]:
    """Open sessions of a user, of a connection each, and return their cookies."""
    call = CallerContext(user, "", {})
    cookies = [store.find(call, user, f"connection {next(PEERS)}")[1] for _ in range(number)]
    return [cookie for cookie in cookies if cookie is not None]


def is_open(store: SessionStore, user: Principal, cookie: str) -> bool:
    """Return whether a session is open; where it is not, one is opened in its place."""
    return store.find(CallerContext(user, "", {"cookie": f"flightllm_session={cookie}"}), user, "another")[1] is None


def test_who_has_most_makes_room() -> None:
    """Where all are in use, a newcomer gets the oldest of whoever has at least two more; others are told to wait."""
    store = SessionStore(TinyDatabase(), FlightLimits(sessions=4))
    first, second, third = opened(store, EVE, 3)
    [ann] = opened(store, ANN)
    [bob] = opened(store, BOB)
    assert len(store) == 4
    assert is_open(store, ANN, ann)
    assert is_open(store, BOB, bob)
    assert is_open(store, EVE, second)
    assert is_open(store, EVE, third)
    for user in (ANN, BOB, EVE):
        with pytest.raises(BusyError, match=r"all sessions are in use; \[limits\] sessions = 4"):
            opened(store, user)
    with pytest.raises(BusyError):
        is_open(store, EVE, first)


def test_idle_ones_of_who_has_most_go_first() -> None:
    """Among sessions not used for a while it is not the oldest that goes, but one of whoever has most."""
    store = SessionStore(TinyDatabase(), FlightLimits(sessions=3, idle_seconds=0.0))
    [bob] = opened(store, BOB)
    eve, _ = opened(store, EVE, 2)
    opened(store, EVE)
    assert is_open(store, BOB, bob)
    assert not is_open(store, EVE, eve)


@pytest.mark.skipif(connected_ports() is None, reason="the system does not tell of connections")
def test_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cookie a session ends with its connection, so that nobody who gets its port finds its settings."""
    monkeypatch.setattr(sessions, "_LOOK_SECONDS", 0.0)
    store = SessionStore(TinyDatabase(), FlightLimits())
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        served, _ = server.accept()
        peer = f"ipv4:127.0.0.1:{client.getsockname()[1]}"
        call = CallerContext(ANN, "", {})
        cookie = store.find(call, ANN, peer)[1]
        assert cookie is not None
        for user in (BOB, EVE):
            opened(store, user)
        assert store.find(call, ANN, peer)[1] is None
        client.close()
        served.close()
        for user in (BOB, EVE):
            opened(store, user)
        assert store.find(call, ANN, peer)[1] is not None
        assert not is_open(store, ANN, cookie)


@pytest.mark.parametrize("token", ["", "login.x"], ids=["cookie", "login"])
@pytest.mark.parametrize("changed", [True, False], ids=["settings", "no settings"])
def test_who_comes_back_to_a_closed_session(token: str, changed: bool) -> None:
    """It is told once that its settings are gone, if it had any; others are not."""
    store = SessionStore(TinyDatabase(), FlightLimits(sessions=1, idle_seconds=0.0))
    session, cookie = store.find(CallerContext(EVE, token, {}), EVE, "first")
    if changed:
        session.set_option("optimizer", "off")
    opened(store, ANN)
    assert not is_open(store, BOB, cookie or "")
    back = CallerContext(EVE, token, {} if token else {"cookie": f"flightllm_session={cookie}"})
    if changed:
        with pytest.raises(NotFoundError, match="its settings are lost"):
            store.find(back, EVE, "second")
    assert store.find(back, EVE, "second")[1] is not None
    assert store.find(back, EVE, "second")[1] is None
