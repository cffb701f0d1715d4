"""Cached properties without a lock."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from flightllm.common.cached import cached_property

_MOST_SECONDS = 20.0


class _Reader:
    """Computes its value once it is told to go on."""

    def __init__(self) -> None:
        self.begun, self.goes_on = Event(), Event()
        self.computed = 0

    @cached_property
    def value(self) -> int:
        """Return a number, after a wait."""
        self.begun.set()
        assert self.goes_on.wait(_MOST_SECONDS)
        self.computed += 1
        return self.computed


def test_each_object_computes_its_value_once() -> None:
    """A second read returns the value of the first one, and each object has its own."""
    first, second = _Reader(), _Reader()
    for one in (first, second):
        one.goes_on.set()
    assert [first.value, first.value, second.value] == [1, 1, 1]
    assert first.computed == 1


def test_objects_do_not_wait_for_each_other() -> None:
    """While one object computes its value, another thread computes the value of another object."""
    slow, quick = _Reader(), _Reader()
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(lambda: slow.value)
        assert slow.begun.wait(_MOST_SECONDS)
        quick.goes_on.set()
        assert threads.submit(lambda: quick.value).result(_MOST_SECONDS) == 1
        slow.goes_on.set()
        assert waiting.result(_MOST_SECONDS) == 1


def test_the_class_gives_the_property_itself() -> None:
    """A read on the class returns the property, so that documentation tools find its docstring."""
    assert _Reader.value.func.__doc__ == "Return a number, after a wait."


def test_a_property_without_a_name_is_refused() -> None:
    """A property that was not defined in a class has no place for its value."""
    nameless = cached_property(lambda _: 1)
    with pytest.raises(TypeError, match="needs a name"):
        nameless.__get__(_Reader())
