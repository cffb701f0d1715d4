"""One request of the page, as the statements that it starts see it."""

import threading

from flightllm.common.principal import Principal
from flightllm.flight.auth import Call
from flightllm.flight.backend import Session
from flightllm.flight.core import Core


class WebCall:
    """Who asks, and from where; to statements what a call over Flight is.

    The login token names the session, so that it keeps its settings from one statement to the next.
    """

    def __init__(self, principal: Principal, token: str, peer: str) -> None:
        self.principal = principal
        self.token = token
        self.peer = peer
        self._call = Call(principal, token, {})
        self._gone = threading.Event()

    def is_cancelled(self) -> bool:
        """Tell whether the browser left."""
        return self._gone.is_set()

    def leave(self) -> None:
        """Say that the browser left. Idempotent."""
        self._gone.set()

    def get_middleware(self, _key: str) -> Call:
        """Return what a call over Flight says in its headers."""
        return self._call

    def session(self, core: Core) -> Session:
        """Return the session of this login.

        Raises:
            BusyError: there are as many sessions as there may be.
        """
        return core.sessions.find(self._call, self.principal, self.peer)[0]

    def close_session(self, core: Core) -> None:
        """Close the session of this login, if it has one."""
        core.sessions.close(self._call, self.principal, self.peer)
