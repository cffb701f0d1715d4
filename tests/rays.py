"""A Ray cluster of this machine for the tests of a module, and how to look at what runs on it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flightllm.llm.ray_connection import RayConnection

WAIT_SECONDS = 120


@contextmanager
def local_ray() -> Iterator[RayConnection]:
    """Start a cluster, which all engines of the block share, and stop it in the end."""
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    connection = RayConnection("", "tests")
    try:
        yield connection
    finally:
        connection.close()


def kill(pid: int) -> None:
    """End a process as a crash or the lack of memory does."""
    os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def runs(pid: int) -> bool:
    """Tell whether a process is there and no zombie, which nobody has looked after yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
