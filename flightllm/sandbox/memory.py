"""The memory of processes, and its ceilings."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

_OVER_POOL = 4
"""The part above `memory_bytes`: DataFusion counts only what operators store, not values and batches in flight."""
_LEAST_OVER = 256 << 20
_OWN_GROUPS, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
"""The control groups of this process, and where the system shows all groups."""


def memory_ceiling(memory_bytes: int) -> int:
    """Return the ceiling in bytes for a query's process, in addition to its memory when idle."""
    return memory_bytes + max(memory_bytes // _OVER_POOL, _LEAST_OVER)


def memory_of(pid: int) -> int:
    """Return the private memory of a process in bytes; 0 if the process is gone or there is no `/proc`."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0


def machine_memory(own: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int:
    """Return the memory in bytes of this machine, or of the container or service if that is less."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _limits(own, groups):
        with suppress(OSError, ValueError):  # "max" stands for the whole machine
            whole = min(whole, int(path.read_text()))
    return whole


def _limits(own: Path, groups: Path) -> Iterator[Path]:
    """Yield the files that can limit this process: of its own group, and of each group around that group.

    A service manager limits a group far below the root. A container sees its own group as the root.
    """
    lines = []
    with suppress(OSError):
        lines = own.read_text().splitlines()
    for line in ["0::/", "0:memory:/", *lines]:
        _, kinds, name = line.split(":", 2)
        if kinds not in {"", "memory"}:
            continue
        folder, file = (groups / kinds, "memory.limit_in_bytes") if kinds else (groups, "memory.max")
        path = PurePosixPath(name.lstrip("/"))
        yield from (folder / one / file for one in (path, *path.parents))
