"""How much memory processes take, and may take."""

import os
from contextlib import suppress
from pathlib import Path

_OVER_POOL = 4
"""DataFusion counts what its operators gather; values and batches on their way come on top."""
_LEAST_OVER = 256 << 20
_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_ceiling(memory_bytes: int) -> int:
    """Return what a process for a query that may use `memory_bytes` may take, beyond what it takes when idle."""
    return memory_bytes + max(memory_bytes // _OVER_POOL, _LEAST_OVER)


def memory_of(pid: int) -> int:
    """Return how many bytes of memory a process takes by itself; 0 where it is gone or nothing tells."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


def machine_memory() -> int:
    """Return how much memory this machine, or the container, has."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _GROUPS:
        with suppress(OSError, ValueError):
            whole = min(whole, int(path.read_text()))
    return whole
