"""The process that converts one file under a memory limit, and ends with the server."""

import ctypes
import json
import os
import pickle
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path

from flightllm.errors import FlightLLMError
from flightllm.file_formats.conversion import Conversion

_NICE = 10
"""The priority of this process, below the server's."""
_PR_SET_PDEATHSIG = 1
_SPARE_ADDRESSES = 8 << 30
"""Addresses in addition to the memory limit, because allocators reserve more than they use."""


def main(parent: int) -> None:
    """Run the conversion on the standard input; write its notes or its error to the file that comes with it."""
    # the server's thread that starts this process waits for it, so this process ends when that thread does
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the server
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.nice(_NICE)
    work: Conversion
    work, most, disk_bytes, answer = pickle.load(sys.stdin.buffer)  # noqa: S301 - the server itself has pickled it
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (most + _SPARE_ADDRESSES, most + _SPARE_ADDRESSES))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (disk_bytes, disk_bytes))  # Python ignores the signal of this limit
    told: dict[str, object]
    try:
        told = {"notes": work.run()}
    except FlightLLMError as error:
        told = {"error": type(error).__name__, "message": str(error), "limit": error.limit}
    except OSError as error:
        told = {"error": "InvalidInputError", "message": f"it cannot be read: {error.strerror}"}
    except MemoryError:
        told = {"error": "MemoryError", "message": ""}
    answer.write_text(json.dumps(told))
    os._exit(0)
