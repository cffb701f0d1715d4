"""The only place where errors become Flight statuses; clients see no other detail of an error."""

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

from flightllm.common.redaction import redacted
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
"""The trailer that holds an error's SQLSTATE."""
_MESSAGE_BYTES = 3_000
"""The longest message of a status in bytes, special characters quoted."""


class _Counting(Protocol):
    """A server that counts what its limits refuse."""

    def refused(self, error: BaseException) -> None:
        """Count `error` if a limit caused it."""


class _SaidOnce(Exception):  # noqa: N818 - never raised itself
    """An error whose text is returned once.

    Arrow's C++ asks for the text twice, and would send it a second time as a 'detail'.
    """

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
    (NotFoundError, NotFound),  # before InvalidInputError: an unknown table is both
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

    Arrow formats them with the traceback module, which has only a process-wide switch. Log handlers pass a limit of
    their own, so logs keep their tracebacks.
    """
    sys.tracebacklimit = 0


def to_status(error: BaseException, query_id: str | None = None) -> Exception:
    """Return the exception whose Flight status describes `error` to a client; log the details that it must not see.

    An error outside our class tree is a defect: the client gets only the query's id, and the log gets the rest.
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
    """Return a message that fits into gRPC's trailers; the middle of a longer message is left out.

    Clients accept 8 KiB of trailers. Arrow sends a message twice in them, once with three bytes for each byte that is
    not ASCII. With larger trailers, clients report the size of the trailers instead of the message.
    """
    text = redacted(text)
    if len(quote(text, errors="replace")) <= _MESSAGE_BYTES:
        return text
    half = _MESSAGE_BYTES // 2
    return f"{_begin(text, half)} … {_begin(text[::-1], half)[::-1]}"


def _begin(text: str, most: int) -> str:
    """Return the longest beginning of a text that takes at most `most` bytes once it is quoted."""
    sizes = accumulate(len(quote(character, errors="replace")) for character in text[:most])
    return text[: sum(1 for _ in takewhile(lambda size: size <= most, sizes))]


class Trailers(Protocol):
    """The trailers of a call, sent at its end beside the status."""

    def add_trailer(self, key: str, value: str) -> None:
        """Send a trailer."""


_C = TypeVar("_C", bound=Trailers)


@contextmanager
def statuses(
    call: Trailers | None = None,
    query_id: Callable[[], str | None] = lambda: None,
    seen: Callable[[BaseException], None] = lambda _: None,
) -> Iterator[None]:
    """Turn any exception raised inside into a Flight status, and send its SQLSTATE as a trailer of `call`.

    The SQLSTATE is a trailer because a status made of ValueError or KeyError carries only a message. ADBC shows the
    trailer in `error.details`, grpc-js in `error.metadata`; pyarrow and JDBC pass it to their middleware. `seen` gets
    the error first.
    """
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as exc:  # noqa: BLE001 - the boundary: no exception must pass unchanged
        seen(exc)
        status = to_status(exc, query_id())
        if call is not None and not isinstance(exc, flight.FlightError):
            call.add_trailer(SQLSTATE, sqlstate(exc))
        raise status from None


def boundary(method: Callable[Concatenate[_S, _C, _P], _R]) -> Callable[Concatenate[_S, _C, _P], _R]:
    """Wrap an RPC method of the server so that it raises only Flight statuses."""

    @wraps(method)
    def guarded(self: _S, context: _C, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        guard: AbstractContextManager[None] = statuses(context, seen=self.refused)
        with guard:
            return method(self, context, *args, **kwargs)

    return guarded
