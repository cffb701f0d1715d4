"""Fair queueing: users take turns, and so do the sessions of one user."""

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Requester:
    """The user and session that a queued item belongs to."""

    user: str
    session: str


class FairQueue(Generic[_T]):
    """The waiting items, in one queue for each session; not thread-safe by itself.

    A session with a hundred waiting statements is served as often as a session with one statement. A user with a
    hundred sessions is served as often as a user with one session. The next item comes from the user who holds the
    fewest places (see `HeldCounts`).
    """

    def __init__(self) -> None:
        self._users: OrderedDict[str, OrderedDict[str, deque[_T]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """Return how many items wait."""
        return self._size

    def add(self, asker: Requester, item: _T) -> None:
        """Append an item to its session's queue."""
        self._users.setdefault(asker.user, OrderedDict()).setdefault(asker.session, deque()).append(item)
        self._size += 1

    def take(self, held: "HeldCounts | None" = None) -> _T:
        """Remove and return the next item; `held` says how many places users and sessions have.

        Raises:
            ValueError: no item waits.
        """
        if not self._size:
            raise ValueError("take from an empty queue")
        asker = self.first(held or HeldCounts())
        user, session = asker.user, asker.session
        sessions = self._users.pop(user)
        items = sessions.pop(session)
        item = items.popleft()
        if items:
            sessions[session] = items
        if sessions:
            self._users[user] = sessions
        self._size -= 1
        return item

    def first(self, held: "HeldCounts") -> Requester:
        """Return the user and session whose item `take` would remove; an item must wait."""
        user = min(self._users, key=held.of_user)
        return Requester(user, min(self._users[user], key=lambda session: held.of(Requester(user, session))))

    def waiting(self) -> dict[Requester, int]:
        """Return how many items wait for each user and session."""
        return {
            Requester(user, session): len(items)
            for user, sessions in self._users.items()
            for session, items in sessions.items()
        }

    def make_room(self, asker: Requester) -> _T | None:
        """Remove and return the newest item of the user with the most waiting items, to make room for `asker`.

        That user must have at least two more items than the user of `asker`. If no user has so many, the method
        compares the sessions of the user of `asker` by the same rule. Returns None if no session has so many either.
        """
        waiting = HeldCounts()
        for one, count in self.waiting().items():
            waiting.add(one, count)
        user = max(self._users, key=waiting.of_user, default=asker.user)
        if waiting.of_user(user) < waiting.of_user(asker.user) + 2:
            user = asker.user
        sessions = [Requester(user, session) for session in self._users.get(user, ())]
        most = max(sessions, key=waiting.of, default=asker)
        if user == asker.user and waiting.of(most) < waiting.of(asker) + 2:
            return None
        item = self._users[most.user][most.session][-1]
        self.remove(most, item)
        return item

    def remove(self, asker: Requester, item: _T) -> bool:
        """Remove an item that no longer waits; return whether it was in the queue."""
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


class HeldCounts:
    """A count for each user and each session, such as the number of places held; not thread-safe by itself."""

    def __init__(self) -> None:
        self._users: Counter[str] = Counter()
        self._sessions: Counter[Requester] = Counter()

    def of_user(self, user: str) -> int:
        """Return the count of a user."""
        return self._users[user]

    def of(self, asker: Requester) -> int:
        """Return the count of a session."""
        return self._sessions[asker]

    @property
    def users(self) -> int:
        """Return the number of users whose count is not 0."""
        return len(self._users)

    def add(self, asker: Requester, count: int) -> None:
        """Add a positive or negative number to the counts of a session and its user."""
        self._users[asker.user] += count
        self._sessions[asker] += count
        if not self._users[asker.user]:
            del self._users[asker.user]
        if not self._sessions[asker]:
            del self._sessions[asker]
