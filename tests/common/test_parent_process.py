"""Processes like those that vLLM starts: they end with the server's process, however that ends."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes that are no children")

SCRIPT = """
import multiprocessing, os, sys, threading, time
from flightllm.kvcache.eviction.vllm import register
from flightllm.common.parent_process import keep_children

def core(method, depth):
    register()  # as vLLM has it called in each of its processes
    register()
    print(os.getpid(), flush=True)
    if depth:
        multiprocessing.get_context(method).Process(target=core, args=(method, depth - 1)).start()
    time.sleep(600)

if __name__ == "__main__":
    method = sys.argv[1]
    keep_children()
    keep_children()
    register()  # in the server's own process it watches nobody
    engine = multiprocessing.get_context(method).Process(target=core, args=(method, 1))
    starter = threading.Thread(target=engine.start)  # a thread that ends takes no engine with it
    starter.start()
    starter.join()
    sys.stdin.read()
    os._exit(0)
"""


@contextmanager
def tree(method: str, script: str) -> Iterator[tuple["subprocess.Popen[str]", list[int]]]:
    """Start a stand-in for a server, with an engine and its worker; give the descriptors of these two."""
    command = [sys.executable, script, method]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        pids = [int(server.stdout.readline()) for _ in range(2)]
        descriptors = [os.pidfd_open(pid) for pid in pids]
        try:
            yield server, descriptors
        finally:
            server.kill()
            for pid, descriptor in zip(pids, descriptors, strict=True):
                if not has_ended(descriptor, 0):
                    os.kill(pid, signal.SIGKILL)
                os.close(descriptor)


def has_ended(descriptor: int, seconds: float) -> bool:
    """Wait until a process has ended, so long at most."""
    return bool(select.select([descriptor], [], [], seconds)[0])


@pytest.fixture
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write the stand-in to a file, which processes that are spawned import."""
    path = tmp_path_factory.mktemp("tree") / "stand_in.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_killed_server_leaves_no_engine(script: str, method: str) -> None:
    """Its engine's process and that one's worker end too, where the server had no moment to say so."""
    with tree(method, script) as (server, processes):
        server.kill()
        assert [has_ended(one, 60) for one in processes] == [True, True]


@pytest.mark.slow
def test_a_killed_engine_leaves_no_worker(script: str) -> None:
    """Its worker ends; the server, which opens the engine anew, goes on."""
    with tree("spawn", script) as (server, (engine, worker)):
        signal.pidfd_send_signal(engine, signal.SIGKILL)
        assert has_ended(worker, 60)
        assert server.poll() is None


def test_nobody_else_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that belongs to no server, one of vLLM's own say, watches nobody and outlives its parent."""
    monkeypatch.delenv("FLIGHTLLM_ENGINE_PARENT", raising=False)
    code = "from flightllm.common.parent_process import end_with_parent; import threading; end_with_parent()"
    command = [sys.executable, "-c", f"{code}; print(threading.active_count())"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
