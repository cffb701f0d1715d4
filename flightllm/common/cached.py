"""A property that computes its value once for each object, without a lock."""

import functools
from typing import Any, TypeVar, overload

_T = TypeVar("_T")


class cached_property(functools.cached_property[_T]):  # noqa: N801 - named as the class that it replaces
    """A property whose first reader computes the value; the value then stays with the object.

    Before Python 3.12, the standard library's class holds one lock for all objects while it computes a value: a
    thread that reads a long text keeps all other threads from reading theirs. This class has no lock. Two threads
    that read the property of one object at the same time can both compute the value, and the last one stays.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "cached_property[_T]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> _T: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> "cached_property[_T] | _T":
        """Return the value of an object; it is computed unless the object has it."""
        if instance is None:
            return self
        name = self.attrname
        if name is None:
            raise TypeError("a cached property needs a name: define it in the body of a class")
        values = vars(instance)
        if name not in values:
            values[name] = self.func(instance)
        found: _T = values[name]
        return found
