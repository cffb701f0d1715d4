"""What a restricted class takes over from the one it stands for: only what it names; all else refuses."""

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from flightllm.errors import PermissionDeniedError

_C = TypeVar("_C", bound=type)


def closed(*, shared: Collection[str]) -> Callable[[_C], _C]:
    """Return a decorator that closes the public methods of a class's bases which it does not define itself.

    Those in `shared` stay as they are, since they reach nothing but by the class's own methods. So a method that a base
    gets is refused until somebody has thought about who may call it.
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
        raise PermissionDeniedError(f"this is for admins: ask one of them ({name.replace('_', ' ')})")

    refuse.__name__ = name
    refuse.__doc__ = "Refuse: it is for admins."
    return refuse
