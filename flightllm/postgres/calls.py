"""One connection, as the call that its statements answer."""

import threading

from flightllm.common.principal import Principal
from flightllm.errors import UnauthenticatedError
from flightllm.flight.auth import CallerContext
from flightllm.flight.backend import BackendSession
from flightllm.flight.core import Core
from flightllm.postgres.failures import fatal
from flightllm.sql.client_parameters import ParameterTable


class PostgresCall:
    """The user and address of a connection; statements treat it like a call over Flight.

    The connection names the session, so the session ends with it.
    """

    def __init__(self, principal: Principal, peer: str) -> None:
        self.principal = principal
        self.peer = peer
        self.parameters: ParameterTable | None = None
        self._call = CallerContext(principal, "", {})
        self._gone = threading.Event()
        self._cancelled = threading.Event()
        self._session: BackendSession | None = None

    def is_cancelled(self) -> bool:
        """Return whether the client left, or cancelled the statement that runs."""
        return self._gone.is_set() or self._cancelled.is_set()

    def leave(self) -> None:
        """Record that the client left. Idempotent."""
        self._gone.set()

    def cancel(self) -> None:
        """Cancel the statement that runs now."""
        self._cancelled.set()

    def renew(self) -> None:
        """Forget a request to cancel before the next statement."""
        self._cancelled.clear()

    def get_middleware(self, _key: str) -> CallerContext:
        """Return the `CallerContext` that a call over Flight reads from its headers."""
        return self._call

    def session(self, core: Core) -> BackendSession:
        """Return the session of this connection.

        Raises:
            BusyError: the maximum number of sessions is open.
            WireError: the session was closed, or its user was dropped.
        """
        try:
            core.login.current(self.principal)
        except UnauthenticatedError as error:
            raise fatal("28000", str(error)) from error
        session = core.sessions.find(self._call, self.principal, self.peer)[0]
        if self._session not in (None, session):
            raise fatal("57P05", "the session was closed because it was idle too long or others needed room")
        if self._session is None:
            session.speak_postgres(self.parameters)
        self._session = session
        return session

    def close_session(self, core: Core) -> None:
        """Close the session of this connection, if there is one."""
        core.sessions.close(self._call, self.principal, self.peer)
        self._session = None
