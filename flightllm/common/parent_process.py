"""Engine processes that end with the server, even if it is killed. Otherwise they would keep a GPU's memory."""

import os
import signal
import threading
import time
from contextlib import suppress
from typing import Final

_VARIABLE: Final = "FLIGHTLLM_ENGINE_PARENT"
"""The environment variable with the id of the process that engine processes belong to; they inherit it."""
_LOOK_SECONDS: Final = 1.0
"""How often to look for the parent if the operating system cannot signal its end."""
_watching: set[int] = set()
"""Ids of the processes that already watch, so that none watches twice; a forked child has another id."""


def keep_children() -> None:
    """End all processes that this one starts from now on when this one ends.

    Forked processes watch at once, other processes as soon as they call `end_with_parent`.
    """
    if os.environ.get(_VARIABLE) != str(os.getpid()):
        os.environ[_VARIABLE] = str(os.getpid())
        os.register_at_fork(after_in_child=end_with_parent)


def end_with_parent() -> None:
    """End this process once the process that called `keep_children`, or its own parent, has ended; watches in threads.

    In a process without such an owner, nothing happens. PR_SET_PDEATHSIG, the kernel's signal for this, does not help:
    it comes as soon as the parent's thread that started the process ends.
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
    os.kill(os.getpid(), signal.SIGKILL)  # nobody uses it any more, and a clean exit can wait for the parent forever


def _wait_for_end(process: int) -> None:
    """Return once a process that is not a child of this one has ended."""
    if hasattr(os, "pidfd_open"):
        import select

        try:
            descriptor = os.pidfd_open(process)
        except ProcessLookupError:
            return
        except OSError:  # the kernel does not support it
            pass
        else:
            select.select([descriptor], [], [])
            return
    with suppress(ProcessLookupError):
        while True:
            os.kill(process, 0)
            time.sleep(_LOOK_SECONDS)
