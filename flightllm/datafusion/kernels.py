"""Detects when DataFusion's threads really stop: a cancelled join of two batches still runs to its end."""

from collections.abc import Mapping
from pathlib import Path

_THREADS = Path("/proc/self/task")
_NAME = "tokio-rt-worker"
_STATE, _SWITCHES = "State:", "voluntary_ctxt_switches:"


def running_kernels() -> Mapping[int, int]:
    """Return DataFusion's running threads, each with its number of voluntary context switches so far ("rests").

    A thread rests when it has no work. Page faults and waits for locks also count as rests, so a thread can seem to
    have stopped early. The result is empty if there is no `/proc`.
    """
    found = {}
    for thread in _threads():
        fields = _fields(thread)
        if fields.get("Name:") == _NAME and fields.get(_STATE, "").startswith("R"):
            found[thread] = int(fields.get(_SWITCHES, "0"))
    return found


def still_running(before: Mapping[int, int]) -> dict[int, int]:
    """Return the threads of `before` that have not rested since."""
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
    except OSError:  # the thread ended meanwhile
        return {}
    return {name: value for name, _, value in (line.partition("\t") for line in lines)}
