"""Errors as the page gets them."""

from typing import Any

from flightllm.errors import (
    BusyError,
    EngineUnavailableError,
    FlightLLMError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    PermissionDeniedError,
    StatementTimeoutError,
    UnauthenticatedError,
    UnsupportedError,
)
from flightllm.flight.errors import to_status
from flightllm.flight.sqlstates import sqlstate

_STATUSES: tuple[tuple[type[FlightLLMError], int], ...] = (
    (UnauthenticatedError, 401),
    (PermissionDeniedError, 403),
    (NotFoundError, 404),
    (StatementTimeoutError, 408),
    (LimitExceededError, 413),
    (BusyError, 503),
    (EngineUnavailableError, 503),
    (InvalidInputError, 400),
    (UnsupportedError, 400),
)
"""Most particular first; the first class that fits decides. Other errors are failures of the server (500)."""


def http_status(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def described(error: BaseException, query_id: str | None = None) -> dict[str, Any]:
    """Return an error as values of JSON; for a defect only the query's id, and the log has the rest."""
    return {"message": str(to_status(error, query_id)), "sqlstate": sqlstate(error), "query_id": query_id}
