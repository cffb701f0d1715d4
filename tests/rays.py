"""A Ray cluster of this machine for the tests of a module, and how to look at what runs on it."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from flightllm.router.ray.connection import RayConnection
from tests.servers import await_true

WAIT_SECONDS = 120


@contextmanager
def local_ray() -> Iterator[RayConnection]:
    """Start a cluster, which all engines of the block share, and stop it in the end."""
    need_ray()
    connection = RayConnection("", "tests")
    try:
        yield connection
    finally:
        connection.close()


def need_ray() -> None:
    """Skip a test where Ray is not installed; it must not be imported before its settings are made."""
    if find_spec("ray") is None:
        pytest.skip("the extra 'ray' is not installed")


def kill(pid: int) -> None:
    """End a process as a crash or the lack of memory does."""
    os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    await_true(condition, WAIT_SECONDS)


def runs(pid: int) -> bool:
    """Return whether a process is there and no zombie, which nobody has looked after yet."""
    return _stat(pid)[0] not in {"", "Z"}


def children(pid: int) -> list[int]:
    """Return the processes that one has started, and those that they have."""
    parents = {int(path.name): _stat(int(path.name))[1] for path in Path("/proc").glob("[0-9]*")}
    own = [child for child, parent in parents.items() if parent == str(pid)]
    return own + [further for child in own for further in children(child)]


def _stat(pid: int) -> tuple[str, str]:
    """Return a process's state and its parent; empty texts where there is none."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, parent
