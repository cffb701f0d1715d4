"""Tell when DataFusion has really stopped: a join of two batches runs to its end, whoever waits for it no longer."""

from collections.abc import Mapping
from pathlib import Path

_THREADS = Path("/proc/self/task")
_NAME = "tokio-rt-worker"
_STATE, _SWITCHES = "State:", "voluntary_ctxt_switches:"


def running_kernels() -> Mapping[int, int]:
    """Return DataFusion's threads that run now, and how often each has rested so far; none where /proc has no such.

    A thread rests once nothing is left to do. A page fault or a wait for a lock within a part of its work counts as a
    rest too, so that it can seem to have ended early.
    """
    found = {}
    for thread in _threads():
        fields = _fields(thread)
        if fields.get("Name:") == _NAME and fields.get(_STATE, "").startswith("R"):
            found[thread] = int(fields.get(_SWITCHES, "0"))
    return found


def still_running(before: Mapping[int, int]) -> dict[int, int]:
    """Return those threads of `before` that have not rested since."""
    now = running_kernels() if before else {}
    return {thread: rests for thread, rests in before.items() if now.get(thread) == rests}


def _threads() -> list[int]:
    try:
        return [int(thread.name) for thread in _THREADS.iterdir()]
    except OSError:
        return []


def _fields(thread: int) -> dict[str, str]:
    try:
        lines = (_THREADS / str(thread) / "status").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return {}
    return {name: value for name, _, value in (line.partition("\t") for line in lines)}
