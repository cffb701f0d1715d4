"""Handles are bounded in number and age."""

import pytest

from flightllm.errors import NotFoundError
from flightllm.flight.registry import Registry


def test_the_least_recently_used_is_dropped() -> None:
    """Using a handle keeps it."""
    dropped: list[str] = []
    registry = Registry("thing", 2, 60, dropped.append)
    first, _second = registry.add("first"), registry.add("second")
    registry.get(first)
    registry.add("third")
    assert dropped == ["second"]
    assert registry.get(first) == "first"


def test_the_old_are_dropped() -> None:
    """A handle that nobody used for too long goes when another comes."""
    dropped: list[str] = []
    registry = Registry("thing", 10, -1, dropped.append)
    registry.add("first")
    assert dropped == ["first"]


def test_unknown_handles_are_explained() -> None:
    """The error says what kind of thing is missing."""
    with pytest.raises(NotFoundError, match="no such thing"):
        Registry[str]("thing", 1, 60).get(b"x")


def test_removing_twice() -> None:
    """Removing is idempotent and says whether there was something."""
    registry: Registry[str] = Registry("thing", 1, 60)
    handle = registry.add("x")
    assert [registry.remove(handle), registry.remove(handle)] == [True, False]


def test_who_has_most_makes_room() -> None:
    """One owner's many values push out its own, not another's."""
    registry: Registry[str] = Registry("thing", 3, 60.0, owner=lambda value: value[0])
    kept = registry.add("b1")
    greedy = [registry.add(f"a{number}") for number in range(5)]
    assert registry.get(kept) == "b1"
    assert [registry.get(handle) for handle in greedy[-2:]] == ["a3", "a4"]
    with pytest.raises(NotFoundError):
        registry.get(greedy[0])
