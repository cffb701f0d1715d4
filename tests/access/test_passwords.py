"""Checks of passwords are bounded, and strangers' checks keep nobody out who is known."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from flightllm.access import passwords
from flightllm.access.passwords import hash_password, is_password
from flightllm.errors import BusyError
from tests.servers import await_true


@pytest.mark.parametrize(("semaphore", "places"), [("_ROOM", 258), ("_AT_ONCE", 2)])
def test_strangers_keep_nobody_out(semaphore: str, places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """While strangers try passwords, who was here before comes in, and others are told to come again."""
    monkeypatch.setattr(passwords, "_WAIT_SECONDS", 0.1)
    kept = hash_password("a long password")
    assert is_password("a long password", kept)
    with ExitStack() as strangers:
        for _ in range(places):
            strangers.enter_context(getattr(passwords, semaphore))
        assert is_password("a long password", kept)
        with pytest.raises(BusyError, match="too many are signing in"):
            is_password("wrong password", kept)
    assert not is_password("wrong password", kept)
    assert not is_password("a long password", None)


def test_many_sign_in_together() -> None:
    """Clients of one user that all come at once, as right after a start, all come in, and a wrong password does not."""
    kept, together = hash_password("a long password"), threading.Barrier(61)

    def sign_in(password: str) -> bool:
        together.wait()
        return is_password(password, kept)

    with ThreadPoolExecutor(61) as clients:
        found = list(clients.map(sign_in, ["wrong password", *["a long password"] * 60]))
    assert found == [False, *[True] * 60]


def test_a_password_found_right_meanwhile() -> None:
    """Who waited for a place is not checked again where another was with the same password."""
    with ThreadPoolExecutor(1) as clients, ExitStack() as strangers:
        for _ in range(2):
            strangers.enter_context(passwords._AT_ONCE)
        places = passwords._ROOM._value
        found = clients.submit(is_password, "a long password", "what no password fits")
        await_true(lambda: passwords._ROOM._value < places)
        passwords._known.add("a long password", "what no password fits")
        strangers.close()
        assert found.result()


def test_as_many_are_known_as_may_be() -> None:
    """The oldest of too many is forgotten, and checked again."""
    known = passwords._Known(2)
    for password in ("first", "second", "third"):
        known.add(password, "hash")
    assert [known.has(password, "hash") for password in ("first", "second", "third")] == [False, True, True]
    assert not known.has("third", "another hash")
