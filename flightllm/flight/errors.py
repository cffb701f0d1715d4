"""The one place where errors become Flight statuses, and where nothing else of an error may pass."""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from itertools import accumulate, takewhile
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast
from urllib.parse import quote

import pyarrow as pa
import structlog
from pyarrow import flight

from flightllm.common.text import well_formed
from flightllm.errors import (
    BitstreamError,
    BusyError,
    CancelledError,
    EngineError,
    EngineUnavailableError,
    FlightLLMError,
    InternalError,
    InvalidInputError,
    MissingExtraError,
    NotFoundError,
    PermissionDeniedError,
    StatementTimeoutError,
    StoreUnavailableError,
    UnauthenticatedError,
    UnsupportedError,
)
from flightllm.flight.sqlstates import sqlstate

_log = structlog.get_logger(__name__)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound="_Counting")
SQLSTATE = "x-flightllm-sqlstate"
"""The trailer that has an error's SQLSTATE."""
_MESSAGE_BYTES = 3_000
"""Longest message of a status, with special characters quoted."""


class _Counting(Protocol):
    """A server that counts what its limits refuse."""

    def refused(self, error: BaseException) -> None:
        """Count an error, if it is about a limit."""


class _SaidOnce(Exception):  # noqa: N818 - never raised itself
    """Say the message once: Arrow's C++ asks for it twice and would send it doubled, the second time as a 'detail'."""

    def __str__(self) -> str:
        text = str(self.args[0]) if self.args else ""
        self.args = ()
        return text


class InvalidArgument(_SaidOnce, ValueError):  # noqa: N818 - the name is what a client sees
    """gRPC INVALID_ARGUMENT: pyarrow has no Flight error for it but maps ValueError."""

    __module__ = "builtins"  # keeps the package's path out of what a client sees


class NotFound(_SaidOnce, KeyError):  # noqa: N818
    """gRPC NOT_FOUND, by way of KeyError."""

    __module__ = "builtins"


class Unimplemented(_SaidOnce, NotImplementedError):  # noqa: N818
    """gRPC UNIMPLEMENTED, by way of NotImplementedError."""

    __module__ = "builtins"


_STATUSES: tuple[tuple[type[FlightLLMError], type[Exception]], ...] = (
    (NotFoundError, NotFound),  # before what the text of an unknown table is otherwise
    (InvalidInputError, InvalidArgument),
    (UnsupportedError, Unimplemented),
    (MissingExtraError, Unimplemented),
    (UnauthenticatedError, flight.FlightUnauthenticatedError),
    (PermissionDeniedError, flight.FlightUnauthorizedError),
    (CancelledError, flight.FlightCancelledError),
    (StatementTimeoutError, flight.FlightTimedOutError),
    (BusyError, flight.FlightUnavailableError),
    (StoreUnavailableError, flight.FlightUnavailableError),
    (BitstreamError, flight.FlightServerError),
    (EngineUnavailableError, flight.FlightUnavailableError),
    (EngineError, flight.FlightServerError),
    (InternalError, flight.FlightInternalError),
)
"""Most particular first; the first class that fits decides."""


_CANCELLED: type[Exception] = flight.FlightCancelledError
_INTERNAL: type[Exception] = flight.FlightInternalError


def hide_tracebacks() -> None:
    """Keep Python tracebacks out of the statuses that pyarrow makes of ValueError, KeyError and NotImplementedError.

    Arrow formats them with the traceback module, whose only switch is process-wide. Logs pass their own limit.
    """
    sys.tracebacklimit = 0


def to_status(error: BaseException, query_id: str | None = None) -> Exception:
    """Return the exception whose Flight status says `error` to a client, and log what must not be said.

    Anything outside our tree is a defect: the client learns only the query's id, the log has the rest.
    """
    if isinstance(error, flight.FlightError):
        return cast("Exception", error)
    for ours, status in _STATUSES:
        if isinstance(error, ours):
            return status(_fitted(well_formed(str(error)) or type(error).__name__))
    if isinstance(error, pa.ArrowCancelled):
        return _CANCELLED("the query was cancelled")
    text = "".join(traceback.format_exception(error, limit=50))
    _log.error("internal error", query_id=query_id, error_type=type(error).__name__, traceback=text)
    return _INTERNAL(f"internal error, query_id={query_id or 'none'}")


def _fitted(text: str) -> str:
    """Return a message that fits into gRPC's trailers, its middle left out where it is too long.

    Clients take 8 KiB of them, in which Arrow sends a message twice, once with three bytes for each that is not ASCII.
    Beyond that they would be told of the trailers' size instead.
    """
    if len(quote(text, errors="replace")) <= _MESSAGE_BYTES:
        return text
    half = _MESSAGE_BYTES // 2
    return f"{_begin(text, half)} … {_begin(text[::-1], half)[::-1]}"


def _begin(text: str, most: int) -> str:
    """Return as much of the beginning of a text as takes `most` bytes once it is quoted."""
    sizes = accumulate(len(quote(character, errors="replace")) for character in text[:most])
    return text[: sum(1 for _ in takewhile(lambda size: size <= most, sizes))]


class Trailers(Protocol):
    """What a call can still say at its end, beside its status."""

    def add_trailer(self, key: str, value: str) -> None:
        """Send a trailer."""


_C = TypeVar("_C", bound=Trailers)


@contextmanager
def statuses(
    call: Trailers | None = None,
    query_id: Callable[[], str | None] = lambda: None,
    seen: Callable[[BaseException], None] = lambda _: None,
) -> Iterator[None]:
    """Turn whatever is raised inside into a Flight status, and send its SQLSTATE as a trailer of `call`.

    A trailer, because a status made of ValueError or KeyError carries nothing else. ADBC shows it in `error.details`,
    grpc-js in `error.metadata`, pyarrow and JDBC to their middleware. `seen` has a look at the error before.
    """
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as exc:  # noqa: BLE001 - the boundary: no exception may pass as it is
        seen(exc)
        status = to_status(exc, query_id())
        if call is not None and not isinstance(exc, flight.FlightError):
            call.add_trailer(SQLSTATE, sqlstate(exc))
        raise status from None


def boundary(method: Callable[Concatenate[_S, _C, _P], _R]) -> Callable[Concatenate[_S, _C, _P], _R]:
    """Wrap an RPC method of the server so that it raises Flight statuses only."""

    @wraps(method)
    def guarded(self: _S, context: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        guard: AbstractContextManager[None] = statuses(context, seen=self.refused)
        with guard:
            return method(self, context, *args, **kwargs)

    return guarded
