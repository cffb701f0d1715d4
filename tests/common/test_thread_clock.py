"""A thread's clock counts what that thread computes, and nothing else."""

import sys
import threading

import pytest

from flightllm.common.thread_clock import ThreadClock


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no clocks of threads")
def test_of_another_thread() -> None:
    """It goes on while its thread computes, stands almost still while its thread waits, and can be read afterwards."""
    clocks, computes, ends = list[ThreadClock](), threading.Event(), threading.Event()

    def work() -> None:
        clocks.append(ThreadClock())
        while not computes.is_set():
            sum(range(1_000))
        ends.wait()

    thread = threading.Thread(target=work)
    thread.start()
    while not clocks or clocks[0].seconds() < 0.05:
        pass
    computes.set()
    before = clocks[0].seconds()
    own = ThreadClock()
    while own.seconds() < 0.05:
        pass
    assert clocks[0].seconds() - before < 0.05
    ends.set()
    thread.join()
    assert clocks[0].seconds() >= before
