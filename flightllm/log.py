"""Logging: structlog events with key-values on standard error, as text for people or as one JSON object a line."""

import logging
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

import structlog

from flightllm.common.redaction import redacted
from flightllm.config import LogConfig


def configure_logging(config: LogConfig) -> None:
    """Set up structlog for this process; the command line calls it once.

    Events carry the variables that `structlog.contextvars` binds, above all `query_id`.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if config.format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    # Neither format shows local variables, because these hold texts from rows.
    without = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    tracebacks = [structlog.processors.ExceptionRenderer(without)] if config.format == "json" else []
    if logging.lastResort is not None:  # where packages log that know nothing of structlog
        logging.lastResort.setFormatter(_Redacting())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *tracebacks,
            renderer,
            _without_secrets,  # last, so that it sees the whole text with its traceback
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[config.level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )


def redact_tracebacks() -> None:
    """Print the tracebacks of errors that no code handles without secrets, from now on in this process."""
    sys.excepthook = _told
    threading.excepthook = lambda failed: _told(failed.exc_type, failed.exc_value, failed.exc_traceback)
    sys.unraisablehook = _told_of


class _Redacting(logging.Formatter):
    """Formats a record of the standard library without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


def _told(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Print the traceback of an error that no code handles, without secrets."""
    if not issubclass(kind, SystemExit):  # a thread can end so
        sys.stderr.write(redacted(_traceback(kind, error, trace)))


def _told_of(failed: "sys.UnraisableHookArgs") -> None:
    """Print an error that Python ignores, and the object where the error happened, without secrets."""
    said = failed.err_msg or "Exception ignored in"
    try:
        place = "" if failed.object is None else f": {failed.object!r}"
    except Exception:  # noqa: BLE001 - the object can be half deleted
        place = f": an object of {type(failed.object).__name__}"
    sys.stderr.write(redacted(f"{said}{place}\n{_traceback(failed.exc_type, failed.exc_value, failed.exc_traceback)}"))


def _traceback(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> str:
    if error is not None:
        return "".join(traceback.format_exception(kind, error, trace))
    # without the error itself, format_exception forgets its kind
    where = ["Traceback (most recent call last):\n", *traceback.format_tb(trace)] if trace is not None else []
    return "".join([*where, f"{kind.__name__}\n"])


def _without_secrets(_logger: object, _method: str, event: Any) -> Any:
    return redacted(event) if isinstance(event, str) else event
