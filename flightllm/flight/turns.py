"""Who is next: users take turns, and so do the sessions of one user."""

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose turn it is about."""

    user: str
    session: str


class Turns(Generic[_T]):
    """What waits, one queue for each session; not safe by itself from several threads.

    A session of a hundred waiting statements is served as often as one of a single statement, and a user of a hundred
    sessions as often as one of a single session.
    """

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[str, deque[_T]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._size

    def add(self, asker: Asker, item: _T) -> None:
        """Put an item last in its session's queue."""
        self._users.setdefault(asker.user, OrderedDict()).setdefault(asker.session, deque()).append(item)
        self._size += 1

    def take(self) -> _T:
        """Remove and return the next item.

        Raises:
            KeyError: none waits.
        """
        user, sessions = self._users.popitem(last=False)
        session, items = sessions.popitem(last=False)
        item = items.popleft()
        if items:
            sessions[session] = items
        if sessions:
            self._users[user] = sessions
        self._size -= 1
        return item

    def remove(self, asker: Asker, item: _T) -> bool:
        """Remove an item that waits no longer; return whether it was there."""
        sessions = self._users.get(asker.user, OrderedDict())
        items = sessions.get(asker.session, deque())
        if item not in items:
            return False
        items.remove(item)
        if not items:
            del sessions[asker.session]
        if not sessions:
            del self._users[asker.user]
        self._size -= 1
        return True
