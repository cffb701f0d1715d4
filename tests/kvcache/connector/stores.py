"""Stores in this process that tests look into."""

import threading
from collections.abc import Iterator, Mapping, Sequence

from flightllm.errors import NotFoundError, StoreUnavailableError

PART = 64


class MemoryStore:
    """Keeps bitstreams in a dictionary. `down` makes every call fail; while `gate` is not set, calls wait for it."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], bytes] = {}
        self.calls: list[str] = []
        self.down = False
        self.gate = threading.Event()
        self.gate.set()

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return what there is of each chunk."""
        self._called("lookup")
        return [{codec: len(data) for (one, codec), data in self.held.items() if one == key} for key in keys]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream in small parts."""
        self._called("get")
        if (key, codec) not in self.held:
            raise NotFoundError(f"no chunk {key}")
        data = memoryview(self.held[key, codec])
        for start in range(0, len(data), PART):
            yield data[start : start + PART]

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream."""
        self._called("put")
        self.held[key, codec] = data

    def _called(self, name: str) -> None:
        self.calls.append(name)
        self.gate.wait(30)
        if self.down:
            raise StoreUnavailableError("the store is down")
