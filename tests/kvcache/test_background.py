"""Functions that run on threads of their own."""

import threading

from flightllm.kvcache.background import Background
from tests.servers import await_true


def threads(name: str) -> int:
    """Return how many threads of a name there are."""
    return sum(thread.name == name for thread in threading.enumerate())


def test_in_order() -> None:
    """Functions run one after the other on one thread, and are waited for."""
    done: list[int] = []
    background = Background("kv-test-order")
    assert all(background.submit(lambda number=number: done.append(number)) for number in range(50))  # type: ignore[misc]
    assert background.wait(30)
    assert done == list(range(50))
    background.close()


def test_waiting_has_an_end() -> None:
    """A function that hangs is waited for no longer than is wanted."""
    gate = threading.Event()

    def hang() -> None:
        gate.wait(30)

    background = Background("kv-test-wait")
    assert background.submit(hang)
    assert not background.wait(0.01)
    gate.set()
    assert background.wait(30)
    background.close()


def test_threads_end() -> None:
    """Once closed the threads end, each after what it is doing; what waited is not run, and nothing more is taken."""
    gate, running, done = threading.Event(), threading.Semaphore(0), []

    def work() -> None:
        running.release()
        gate.wait(30)
        done.append("begun")

    background = Background("kv-test-end", threads=2)
    for _ in range(2):
        background.submit(work)
        assert running.acquire(timeout=30)
    background.submit(lambda: done.append("waited"))
    background.close()
    assert not background.submit(lambda: done.append("late"))
    gate.set()
    await_true(lambda: threads("kv-test-end") == 0)
    assert done == ["begun", "begun"]
