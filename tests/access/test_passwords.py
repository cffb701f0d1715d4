"""Checks of passwords are bounded, and strangers' checks keep nobody out who is known."""

from contextlib import ExitStack

import pytest

from flightllm.access import passwords
from flightllm.access.passwords import hash_password, is_password
from flightllm.errors import BusyError


def test_strangers_keep_nobody_out() -> None:
    """While strangers try passwords, who was here before comes in, and others are told to come again."""
    kept = hash_password("a long password")
    assert is_password("a long password", kept)
    with ExitStack() as strangers:
        for _ in range(34):
            strangers.enter_context(passwords._room())
        assert is_password("a long password", kept)
        with pytest.raises(BusyError, match="too many are signing in"):
            is_password("wrong password", kept)
    assert not is_password("wrong password", kept)
    assert not is_password("a long password", None)


def test_as_many_are_known_as_may_be() -> None:
    """The oldest of too many is forgotten, and checked again."""
    known = passwords._Known(2)
    for password in ("first", "second", "third"):
        known.add(password, "hash")
    assert [known.has(password, "hash") for password in ("first", "second", "third")] == [False, True, True]
    assert not known.has("third", "another hash")
