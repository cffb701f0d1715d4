"""A connection to a Ray cluster that others started."""

import subprocess
import sys
import time
from pathlib import Path
from socket import create_server

import pytest

from flightllm.router.ray.connection import _LOOPBACK
from tests.rays import WAIT_SECONDS, kill, need_ray

_CONNECTED = """
import os, sys
from flightllm.router.ray.connection import RayConnection, node_is_lost
from tests.rays import until

address = sys.argv[1]
connection = RayConnection(address, "tests")
import ray

connection.ensure()
print("connected", ray.get_runtime_context().get_node_id(), flush=True)
sys.stdin.readline()
until(node_is_lost)
connection.ensure()
print("again", ray.get_runtime_context().get_node_id(), flush=True)
connection.ensure()
assert ray.get(ray.remote(num_cpus=0.1)(lambda: os.getpid()).remote(), timeout=60) != os.getpid()
connection.close()
"""


def _start_ray(*arguments: str) -> None:
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1", "--object-store-memory=100000000"]
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        said = subprocess.run([*ray, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_SECONDS)
        if said.returncode == 0:
            return
        # What was killed a moment ago may still hold its ports.
        assert time.monotonic() < deadline, said.stdout + said.stderr
        time.sleep(1)  # noqa: TID251 -- between two attempts


def _parts(folder: Path) -> dict[int, str]:
    """Return the processes of the cluster in a folder, with their programs."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:  # it is gone
            continue
        if any(str(folder).encode() in argument for argument in arguments):
            found[int(path.parent.name)] = Path(arguments[0].decode()).name
    return found


@pytest.mark.ray
@pytest.mark.slow
def test_the_node_restarted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray on this machine is killed and started again, the cluster that it is a part of is used as before."""
    need_ray()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    for name in _LOOPBACK:  # which a local cluster of this process may have left: with it nothing joins a cluster
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path_factory.mktemp("r")
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    try:
        _start_ray("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
        driver = [sys.executable, "-c", _CONNECTED, f"127.0.0.1:{port}"]
        with subprocess.Popen(driver, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            said = next(line for line in process.stdout if line.startswith("connected"))  # the log comes before
            first = said.split()[1]
            for pid, program in _parts(folder).items():
                if program == "raylet":
                    kill(pid)
            _start_ray(f"--address=127.0.0.1:{port}")
            said, _ = process.communicate("go on\n", timeout=180)
        assert process.returncode == 0
        [again] = [line.split()[1] for line in said.splitlines() if line.startswith("again")]
        assert again != first
    finally:
        for pid in _parts(folder):
            kill(pid)
