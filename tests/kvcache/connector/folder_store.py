"""A store of KV chunks in a folder, which can fail in ways that a good one does not, and a connector that uses it."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from flightllm.errors import NotFoundError, StoreUnavailableError
from flightllm.kvcache.connector.vllm import FlightLLMConnector
from flightllm.kvcache.store.base import ChunkStore

PART = 4 << 10


class FolderStore:
    """One file for a bitstream. `fault`: `torn` ends a transfer after a part, `slow` never sends a second one."""

    def __init__(self, folder: Path, fault: str = "") -> None:
        self._folder, self._fault = folder, fault

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return what there is of each chunk."""
        if self._fault == "down":
            raise StoreUnavailableError("the store is down")
        return [{path.suffix[1:]: path.stat().st_size for path in self._folder.glob(f"{key}.*")} for key in keys]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a file's parts."""
        path = self._folder / f"{key}.{codec}"
        if not path.exists():
            raise NotFoundError(f"no chunk {key}")
        data = memoryview(path.read_bytes())
        for start in range(0, len(data), PART):
            if start and self._fault == "torn":
                raise StoreUnavailableError("the store went away")
            yield data[start : start + PART]

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Write a file, whole."""
        work = self._folder / f".{key}.{os.getpid()}"
        work.write_bytes(data)
        work.rename(self._folder / f"{key}.{codec}")


class FolderConnector(FlightLLMConnector):
    """The connector on a store at `folder:///path?fault=…`."""

    def open_store(self) -> ChunkStore:
        """Return the folder's store."""
        parts = urlsplit(self._options.store)
        return FolderStore(Path(parts.path), parse_qs(parts.query).get("fault", [""])[0])
