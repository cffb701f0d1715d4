"""What goes wrong with the disk, as errors of ours."""

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
        InternalError: anything else.
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
        raise InternalError(f"the server cannot write its {what}, so nothing was changed: its log says why") from error


def as_disk_error(error: Exception) -> OSError:
    """Return what a library says of a file that it cannot write, in words of its own, as the system would."""
    text = str(error)
    return OSError(errno.ENOSPC if os.strerror(errno.ENOSPC) in text else errno.EIO, text)
