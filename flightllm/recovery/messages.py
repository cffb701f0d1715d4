"""The messages between the supervisor and the server's process, over a pair of sockets."""

from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import Any

from flightllm.recovery.quarantine import Key, Refused


def _proxy(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


ForkingPickler.register(MappingProxyType, lambda mapping: (_proxy, (dict(mapping),)))  # a pickled `Config` has some


@dataclass(frozen=True, slots=True)
class StartServer:
    """To the server's process: open the database and listen."""

    listen: str
    restarted: bool
    refused: tuple[Refused, ...] = ()
    handed: "Handed | None" = None
    """The state and descriptors of the present process, if this process replaces it without a stop."""


@dataclass(frozen=True, slots=True)
class Listening:
    """To the supervisor: clients can connect; `page` is the web page's address, `is_open` means no login is needed.

    `table` is the first readable table of the configuration, as written there.
    """

    uri: str
    page: str | None = None
    is_open: bool = True
    table: str | None = None
    postgres: str | None = None
    """The address for clients of PostgreSQL."""


@dataclass(frozen=True, slots=True)
class Failed:
    """To the supervisor: the process ends; the message gives the user the reason."""

    message: str


@dataclass(frozen=True, slots=True)
class Alive:
    """To the supervisor, about each second: the process's threads still run."""


@dataclass(frozen=True, slots=True)
class Warm:
    """To the supervisor: the process has loaded its modules and waits."""


@dataclass(frozen=True, slots=True)
class Offer:
    """To the supervisor: the process has grown, and can hand over to a warm process now. Sizes are in bytes."""

    idle: int
    used: int


@dataclass(frozen=True, slots=True)
class HandOver:
    """To the server's process: a warm process is there to take over."""


@dataclass(frozen=True, slots=True)
class Handed:
    """To the supervisor, and on to the next process: the state of the clients, and descriptors.

    Each of `names` says what the descriptor at the same place is. A descriptor's number is right only in the process
    that has the message.
    """

    state: bytes
    names: tuple[str, ...]
    descriptors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """To the supervisor: the next process has all that it needs, has changed nothing yet, and waits for `TakeOver`."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """To the next process: the present one answers nobody any more, and never will, so serve."""


@dataclass(frozen=True, slots=True)
class Resume:
    """To the server's process: the next process is dead and has answered nobody, so go on."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """To the server's process: the next process is about to serve, so end."""


@dataclass(frozen=True, slots=True)
class Lifted:
    """To the supervisor: an admin unblocked a statement, or all statements of a user."""

    key: Key


Message = Any
"""One of the messages above. The first message to the server's process is its `Config`."""
