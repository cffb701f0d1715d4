"""Stop statements whose users are gone, or lost privileges since the statements were planned."""

import threading

import structlog

from flightllm.access.rights import Rights
from flightllm.ddl.grants import is_there
from flightllm.errors import ConfigError, FlightLLMError, PermissionDeniedError, UnauthenticatedError
from flightllm.execution.context import Services
from flightllm.observe.query_log import QueryLog
from flightllm.sql.grants import ObjectKind

_log = structlog.get_logger(__name__)
_SECONDS = 0.5
"""Time between two checks."""


class Revocation:
    """A thread that checks the rights of all open statements twice a second.

    A check for each batch is not enough: some statements run for minutes without a row.
    """

    def __init__(self, services: Services, queries: QueryLog) -> None:
        self._services = services
        self._queries = queries
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="revocation", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. Idempotent."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(_SECONDS):
            try:
                self.look()
            except ConfigError as error:  # new statements fail with this error too
                _log.warning("rights cannot be read, running statements go on", error=str(error))
            except Exception:  # noqa: BLE001 - the next check can succeed
                _log.exception("checking the rights of running statements failed")

    def look(self) -> None:
        """Cancel the statements whose users lost rights."""
        for record in self._queries.running():
            if record.rights is None or record.stopped:
                continue
            if reason := self._refusal(record.rights):
                _log.info("statement stopped, its user lost rights", query_id=record.query_id, user=record.user)
                record.cancel(reason)

    def _refusal(self, planned_under: Rights) -> FlightLLMError | None:
        try:
            now = self._services.access.rights(planned_under.principal)
        except UnauthenticatedError as error:
            return error
        if now is planned_under or planned_under.hold_in(now, self._is_there):
            return None
        return PermissionDeniedError("your rights changed while the statement ran: run it again")

    def _is_there(self, kind: ObjectKind, schema: str, name: str) -> bool:
        return is_there(self._services, kind, schema, name)
