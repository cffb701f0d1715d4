"""One request of the page, as a call that statements can answer."""

import threading

from flightllm.common.principal import Principal
from flightllm.flight.auth import CallerContext
from flightllm.flight.backend import BackendSession
from flightllm.flight.core import Core


class WebCall:
    """The user and address of a request; statements treat it like a call over Flight.

    The login token names the session, so the settings stay from one statement to the next.
    """

    def __init__(self, principal: Principal, token: str, peer: str) -> None:
        self.principal = principal
        self.token = token
        self.peer = peer
        self._call = CallerContext(principal, token, {})
        self._gone = threading.Event()

    def is_cancelled(self) -> bool:
        """Return whether the browser left."""
        return self._gone.is_set()

    def leave(self) -> None:
        """Record that the browser left. Idempotent."""
        self._gone.set()

    def get_middleware(self, _key: str) -> CallerContext:
        """Return the `CallerContext` that a call over Flight reads from its headers."""
        return self._call

    def session(self, core: Core) -> BackendSession:
        """Return the session of this login.

        Raises:
            BusyError: the maximum number of sessions is open.
        """
        with core.activity.call():
            return core.sessions.find(self._call, self.principal, self.peer)[0]

    def opened_session(self, core: Core) -> BackendSession | None:
        """Return the session of this login, or None before its first statement."""
        with core.activity.call():
            return core.sessions.opened(self._call, self.principal, self.peer)

    def close_session(self, core: Core) -> None:
        """Close the session of this login, if there is a session."""
        with core.activity.call():
            core.sessions.close(self._call, self.principal, self.peer)
