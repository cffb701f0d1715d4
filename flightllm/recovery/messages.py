"""What the supervisor and the server's process say to each other, over a pair of sockets."""

from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import Any

from flightllm.recovery.quarantine import Key, Refused


def _proxy(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


ForkingPickler.register(MappingProxyType, lambda mapping: (_proxy, (dict(mapping),)))  # configurations have some


@dataclass(frozen=True, slots=True)
class Start:
    """To the server's process: open the database and listen."""

    listen: str
    restarted: bool
    refused: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Listening:
    """To the supervisor: clients can connect; `page` is the web page's address, and `is_open` says that all can.

    `table` is the first table of the configuration that can be read, as written there.
    """

    uri: str
    page: str | None = None
    is_open: bool = True
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """To the supervisor: the process ends, for a reason that the user can understand."""

    message: str


@dataclass(frozen=True, slots=True)
class Alive:
    """To the supervisor, every few seconds: a thread of the process has its turn."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """To the supervisor: an administrator let go of a statement, or of all of a user."""

    key: Key


Message = Any
"""One of the above; the first one to the server's process is its `Config`."""
