"""A decorator for restricted subclasses. Methods that they do not list raise an error."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from flightllm.errors import PermissionDeniedError

_C = TypeVar("_C", bound=type)


def closed(*, shared: Collection[str]) -> Callable[[_C], _C]:
    """Return a decorator that makes inherited public methods raise an error, unless the class itself defines them.

    Methods in `shared` stay inherited, because they reach data only through the class's own methods. A new method of
    a base class is therefore refused until somebody decides who can call it.
    """

    def close(kind: _C) -> _C:
        for base in kind.__mro__[1:-1]:
            for name in vars(base):
                if not name.startswith("_") and name not in {*vars(kind), *shared}:
                    setattr(kind, name, _refusing(name))
        return kind

    return close


def _refusing(name: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionDeniedError(f"only admins can do this ({name.replace('_', ' ')}): ask an admin")

    refuse.__name__ = name
    refuse.__doc__ = "Refuse: only admins can call this."
    return refuse
