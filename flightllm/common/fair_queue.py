"""Who is next: users take turns, and so do the sessions of one user."""

from collections import Counter, OrderedDict, deque
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
    sessions as often as one of a single session. Who has fewer of what is waited for comes first.
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

    def take(self, held: "Held | None" = None) -> _T:
        """Remove and return the next item, by what everybody holds already.

        Raises:
            ValueError: none waits.
        """
        held = held or Held()
        user = min(self._users, key=held.of_user)
        sessions = self._users.pop(user)
        session = min(sessions, key=lambda session: held.of(Asker(user, session)))
        items = sessions.pop(session)
        item = items.popleft()
        if items:
            sessions[session] = items
        if sessions:
            self._users[user] = sessions
        self._size -= 1
        return item

    def waiting(self) -> dict[Asker, int]:
        """Return how many wait for whom."""
        return {
            Asker(user, session): len(items)
            for user, sessions in self._users.items()
            for session, items in sessions.items()
        }

    def make_room(self, asker: Asker) -> _T | None:
        """Remove and return the newest item of who has most, by at least two more than `asker` has.

        That is another user, or else another session of the same user; None where nobody has so many.
        """
        waiting = Held()
        for one, count in self.waiting().items():
            waiting.add(one, count)
        user = max(self._users, key=waiting.of_user, default=asker.user)
        if waiting.of_user(user) < waiting.of_user(asker.user) + 2:
            user = asker.user
        sessions = [Asker(user, session) for session in self._users.get(user, ())]
        most = max(sessions, key=waiting.of, default=asker)
        if user == asker.user and waiting.of(most) < waiting.of(asker) + 2:
            return None
        item = self._users[most.user][most.session][-1]
        self.remove(most, item)
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


class Held:
    """How many of something users have, and their sessions; not safe by itself from several threads."""

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()
        self._sessions: Counter[Asker] = Counter()

    def of_user(self, user: str) -> int:
        """Return how many a user has."""
        return self._users[user]

    def of(self, asker: Asker) -> int:
        """Return how many a session has."""
        return self._sessions[asker]

    def add(self, asker: Asker, count: int) -> None:
        """Count more, or fewer, for a session and its user."""
        self._users[asker.user] += count
        self._sessions[asker] += count
        if not self._users[asker.user]:
            del self._users[asker.user]
        if not self._sessions[asker]:
            del self._sessions[asker]
