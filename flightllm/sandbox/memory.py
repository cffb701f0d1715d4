"""The memory of processes, and its ceilings."""

import os
from contextlib import suppress
from pathlib import Path

_OVER_POOL = 4
"""The part above `memory_bytes`: DataFusion counts only what operators store, not values and batches in flight."""
_LEAST_OVER = 256 << 20
_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_ceiling(memory_bytes: int) -> int:
    """Return the ceiling in bytes for a query's process, in addition to its memory when idle."""
    return memory_bytes + max(memory_bytes // _OVER_POOL, _LEAST_OVER)


def memory_of(pid: int) -> int:
    """Return the private memory of a process in bytes; 0 if the process is gone or there is no `/proc`."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


def machine_memory() -> int:
    """Return the memory in bytes of this machine, or of the container."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _GROUPS:
        with suppress(OSError, ValueError):
            whole = min(whole, int(path.read_text()))
    return whole
