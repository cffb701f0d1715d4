"""Turns disk failures into FlightLLM errors."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from flightllm.errors import InternalError, LimitExceededError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_log = structlog.get_logger(__name__)


@contextmanager
def disk_errors(what: str = "tables") -> Iterator[None]:
    """Turn a failure to write `what` into an error that names no path; the log has the path.

    Raises:
        LimitExceededError: the disk or a quota is full.
        InternalError: the write failed for another reason.
    """
    try:
        yield
    except OSError as error:
        _log.exception(f"{what} cannot be written")
        if error.errno in _FULL:
            raise LimitExceededError(
                "the server's disk is full, so nothing was changed: drop tables, or ask the administrator for space in"
                " data_folder"
            ) from error
        raise InternalError(
            f"the server cannot write its {what}, so nothing was changed: see the server's log for the reason"
        ) from error


_MISSING = frozenset({errno.ENOENT, errno.EISDIR, errno.ELOOP})
_OF_ONE_FILE = _MISSING | {errno.EPERM, errno.EACCES}


def is_missing(error: OSError) -> bool:
    """Return whether an error says that a file is not there: its place can have a folder or a loop of links."""
    return error.errno in _MISSING


def of_one_file(error: OSError) -> bool:
    """Return whether an error is about one file, so that other files of the disk can still be used.

    Examples are a file of another user, and a folder or a loop of links in the file's place.
    """
    return error.errno in _OF_ONE_FILE


def as_disk_error(error: Exception) -> OSError:
    """Return the OSError for a library's error about a file that it cannot write."""
    text = str(error)
    return OSError(errno.ENOSPC if os.strerror(errno.ENOSPC) in text else errno.EIO, text)
