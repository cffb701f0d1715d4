"""A store of KV chunks in a folder, behind a process of its own that can fail in many ways, and connectors on it."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from flightllm.errors import NotFoundError, StoreUnavailableError
from flightllm.kvcache.connector.timing import StepTimer
from flightllm.kvcache.connector.vllm import FlightLLMConnector
from flightllm.kvcache.store.base import ChunkStore
from flightllm.kvcache.stream.prefill import Parts

PART = 4 << 10


class FolderStore:
    """One file for a bitstream."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return what there is of each chunk."""
        return [{path.suffix[1:]: path.stat().st_size for path in self._folder.glob(f"{key}.*")} for key in keys]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a file's parts."""
        path = self._folder / f"{key}.{codec}"
        if not path.exists():
            raise NotFoundError(f"no chunk {key}")
        data = memoryview(path.read_bytes())
        for start in range(0, len(data), PART):
            yield data[start : start + PART]

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Write a file, whole."""
        work = self._folder / f".{key}.{os.getpid()}"
        work.write_bytes(data)
        work.rename(self._folder / f"{key}.{codec}")


class RemoteStore:
    """The client of `serve`, on a loopback port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Ask the process."""
        found: list[Mapping[str, int]] = list(self._call("lookup", list(keys)))
        return found

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield the parts that it sends."""
        for part in self._call("get", key, codec):
            yield memoryview(part)

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Have it keep a bitstream."""
        list(self._call("put", key, codec, data))

    def _call(self, *message: object) -> Iterator[Any]:
        try:
            with Client(("127.0.0.1", self._port)) as connection:
                connection.send(message)
                while (answer := connection.recv()) is not None:
                    yield answer
        except (OSError, EOFError) as error:
            raise StoreUnavailableError(f"the store went away: {error!r}") from error


class _Unlearning(StepTimer):
    """Learns nothing: a test's small model computes sooner than it loads, and then would load nothing."""

    def learn(self, parts: Parts, seconds: float) -> None:
        """Keep the assumed speed."""


class FolderConnector(FlightLLMConnector):
    """The connector on a store at `folder:///path` or `port://localhost:1234`."""

    def open_store(self) -> ChunkStore:
        """Return the store."""
        parts = urlsplit(self._options.store)
        return FolderStore(Path(parts.path)) if parts.port is None else RemoteStore(parts.port)


class LoadingConnector(FolderConnector):
    """The same connector, which always loads what it can."""

    def register_kv_caches(self, kv_caches: Mapping[str, torch.Tensor]) -> None:
        """Set the worker's paged memory, without the learning of the speed of computing."""
        super().register_kv_caches(kv_caches)
        self._timer = _Unlearning(self._prefill(), torch.device("cpu"))


def serve(folder: Path, faults: Sequence[str]) -> None:
    """Serve a folder; the first transfers end as `faults` say, in their order.

    - `torn` ends a transfer after a part.
    - `changed` sends a wrong byte.
    - `stuck` sends a part and waits until the client goes.
    - `gone` says that nothing is held.
    - `killed` kills this process after a part.
    - `slow` sends a part in 0.1 s.
    """
    store, left = FolderStore(folder), list(faults)
    with Listener(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.address[1]}\n")
        sys.stdout.flush()
        while True:
            threading.Thread(target=_answer, args=(listener.accept(), store, left), daemon=True).start()


def _answer(connection: Connection, store: FolderStore, faults: list[str]) -> None:
    """Answer one call."""
    with connection:
        name, *arguments = connection.recv()
        if name == "lookup":
            for one in store.lookup(*arguments):
                connection.send(one)
        elif name == "put":
            store.put(*arguments)
        elif not _send(connection, store.get(*arguments), faults.pop(0) if faults else ""):
            return
        connection.send(None)


def _send(connection: Connection, parts: Iterator[memoryview], fault: str) -> bool:
    """Send a bitstream's parts; return whether all went."""
    for number, part in enumerate(parts):
        data = bytearray(part)
        if number == 1 and fault == "changed":
            data[len(data) // 2] ^= 1
        elif number == 1 and fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif number == 1 and fault == "stuck":
            socket.socket(fileno=os.dup(connection.fileno())).recv(1)
        elif fault == "slow":
            time.sleep(0.1)  # noqa: TID251 -- the time is what the client measures
        if fault == "gone" or (number == 1 and fault in {"torn", "stuck"}):
            return False
        connection.send(bytes(data))
    return True


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
