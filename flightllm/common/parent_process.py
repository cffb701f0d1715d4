"""Processes of an engine that end with the server's, also where that is killed: else they keep a GPU's memory."""

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Final

_VARIABLE: Final = "FLIGHTLLM_ENGINE_PARENT"
"""The process that an engine's processes belong to; they inherit it."""
_LOOK_SECONDS: Final = 1.0
"""Where the system cannot tell of a process's end by itself."""
_watching: set[int] = set()
"""The processes that watch already, so that one that is told twice watches once; a fork's child has another number."""


def keep_children() -> None:
    """Let the processes that this one starts from now on end with it.

    Those that are forked watch at once, others as soon as they call `end_with_parent`.
    """
    if os.environ.get(_VARIABLE) != str(os.getpid()):
        os.environ[_VARIABLE] = str(os.getpid())
        os.register_at_fork(after_in_child=end_with_parent)


def end_with_parent() -> None:
    """End this process once the one that called `keep_children`, or its own parent, is gone; watches in a thread.

    Nothing happens in a process that belongs to none. A kernel's signal for this, PR_SET_PDEATHSIG, would come as soon
    as the parent's thread ends that started the process.
    """
    owner = os.environ.get(_VARIABLE, "")
    me = os.getpid()
    if not owner.isdecimal() or int(owner) == me or me in _watching:
        return
    _watching.add(me)
    for process in {int(owner), os.getppid()}:
        threading.Thread(target=_end_after, args=(process,), name="end-with-parent", daemon=True).start()


def _end_after(process: int) -> None:
    _wait_for_end(process)
    os.kill(os.getpid(), signal.SIGKILL)  # it serves nobody, and its own way to end may wait for the parent


def _wait_for_end(process: int) -> None:
    """Return once a process, no child of this one, is gone."""
    if hasattr(os, "pidfd_open"):
        import select

        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            return
        except OSError:  # a kernel without it
            pass
        else:
            select.select([descriptor], [], [])
            return
    with suppress(ProcessLookupError):
        while True:
            os.kill(process, 0)
            time.sleep(_LOOK_SECONDS)
