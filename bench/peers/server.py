"""A vLLM server with OpenAI's interface, and its own counters."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import URLError

from flightllm.demo.process import stop

MODEL: Final = "bench"
"""The name of the model in requests to the server."""
_COUNTERS: Final = {
    "calls": "vllm:request_success_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "cached_tokens": "vllm:prefix_cache_hits_total",
    "completion_tokens": "vllm:generation_tokens_total",
}
_READY_SECONDS: Final = 300
_STOP_SECONDS: Final = 20


@contextmanager
def vllm_server(model: Path, kv_bytes: int, in_flight: int, *further: str) -> Iterator[str]:
    """Start a server on a free port; yield its address, and stop it at the end.

    Its block size and precision suit a CPU.

    `further` are more arguments of the server's command.

    Raises:
        RuntimeError: the server did not start; the message quotes the end of its log.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    command += [
        "--kv-cache-memory-bytes",
        str(kv_bytes),
        "--block-size",
        "32",
        "--dtype",
        "bfloat16",
        "--max-num-seqs",
        str(in_flight),
    ]
    command += ["--enforce-eager", "--enable-prompt-tokens-details", *further]
    environment = {
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        **os.environ,
        "VLLM_SERVER_DEV_MODE": "1",  # enables the endpoint that empties the prefix cache
    }
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        url = f"http://127.0.0.1:{port}"
        try:
            if not _ready(url, process):
                log.seek(0)
                raise RuntimeError(f"vLLM's server did not start:\n{log.read()[-2_000:]}")
            yield url
        finally:
            stop(process, _STOP_SECONDS)


def counters(url: str) -> Mapping[str, int]:
    """Return the server's counters since its start: answered prompts and tokens."""
    text = _get(f"{url}/metrics")
    return {
        name: sum(int(float(value)) for value in re.findall(rf"^{metric}\{{.*\}} (\S+)$", text, re.MULTILINE))
        for name, metric in _COUNTERS.items()
    }


def forget_prefixes(url: str) -> None:
    """Empty the server's prefix cache."""
    with urllib.request.urlopen(urllib.request.Request(f"{url}/reset_prefix_cache", method="POST")):  # noqa: S310
        pass


def _ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            _get(f"{url}/health")
        except (URLError, ConnectionError):
            time.sleep(0.5)
        else:
            return True
    return False


def _get(url: str) -> str:
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - our own server's address
        text: bytes = answer.read()
    return text.decode()
