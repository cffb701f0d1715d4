"""Stores of KV chunks for tests: one in memory that fails where it is told to, and one behind a small Flight server."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import pyarrow as pa
import torch
from pyarrow import flight

from flightllm.errors import NotFoundError, StoreUnavailableError
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.codec.int8 import Int8Codec
from flightllm.kvcache.codec.raw import RawCodec

CODECS: Mapping[str, Codec] = {"raw": RawCodec(), "int8": Int8Codec()}
_PART_BYTES = 16 * 1024


@dataclass
class Kept:
    """A prompt's chunks, and the tensor of each."""

    chunks: list[Chunk]
    caches: list[torch.Tensor]


def kept(put: Callable[[str, str, bytes], None], chunks: int = 4, tokens: int = 64, channels: int = 32) -> Kept:
    """Put random chunks into a store by both codecs; the last one is half as long."""
    torch.manual_seed(0)
    ends = [*range(tokens, chunks * tokens, tokens), chunks * tokens - tokens // 2]
    cut = [Chunk(f"{end:040x}", start, end) for start, end in pairwise([0, *ends])]
    caches = [torch.randn(4, 2, chunk.tokens, 2, channels).half() for chunk in cut]
    for chunk, cache in zip(cut, caches, strict=True):
        for name, codec in CODECS.items():
            put(chunk.key, name, codec.encode(cache))
    return Kept(cut, caches)


@dataclass
class MemoryStore:
    """Bitstreams in a dictionary, given in small parts; `before` is called before each part with its number."""

    held: dict[tuple[str, str], bytes] = field(default_factory=dict)
    before: Callable[[str, int], object] = lambda _key, _part: None
    asked: Callable[[], object] = lambda: None
    gets: list[tuple[str, str]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    """Keys whose transfer was closed before its end."""
    lookups: int = 0

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return what is held; see `ChunkStore.lookup`."""
        self.lookups += 1
        self.asked()
        return [{codec: len(data) for (held, codec), data in self.held.items() if held == key} for key in keys]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream; see `ChunkStore.get`."""
        self.gets.append((key, codec))
        if (key, codec) not in self.held:
            raise NotFoundError(f"no chunk {key}")
        return self._parts(key, memoryview(self.held[key, codec]))

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream."""
        self.held[key, codec] = data

    def _parts(self, key: str, data: memoryview) -> Iterator[memoryview]:
        try:
            for number, start in enumerate(range(0, len(data), _PART_BYTES)):
                self.before(key, number)
                yield data[start : start + _PART_BYTES]
        except GeneratorExit:
            self.closed.append(key)


class FlightChunks(flight.FlightServerBase):
    """A Flight server of bitstreams: a ticket `key codec` is answered by batches of one binary value each."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.held: dict[tuple[str, str], bytes] = {}

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream."""
        self.held[key, codec] = data

    def do_action(self, _context: Any, action: Any) -> list[bytes]:
        """Answer with the sizes of what is held of each key, a line for each."""
        keys = action.body.to_pybytes().decode().split()
        lines = (" ".join(f"{c}={len(data)}" for (k, c), data in self.held.items() if k == key) for key in keys)
        return ["\n".join(lines).encode()]

    def do_get(self, _context: Any, ticket: Any) -> Any:
        """Stream a bitstream."""
        data = pa.py_buffer(self.held[tuple(ticket.ticket.decode().split())])
        schema = pa.schema([("part", pa.large_binary())])
        parts = (data[start : start + _PART_BYTES] for start in range(0, len(data), _PART_BYTES))
        batches = (pa.record_batch([pa.array([part.to_pybytes()], pa.large_binary())], schema) for part in parts)
        return flight.GeneratorStream(schema, batches)


class FlightStore:
    """The client of `FlightChunks`, at `host:port`."""

    def __init__(self, address: str) -> None:
        self._client = flight.connect(f"grpc://{address}")

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return what is held; see `ChunkStore.lookup`."""
        try:
            (answer,) = self._client.do_action(flight.Action("lookup", " ".join(keys).encode()))
        except pa.ArrowException as error:
            raise StoreUnavailableError(str(error)) from error
        lines = answer.body.to_pybytes().decode().split("\n")
        pairs = [[pair.split("=") for pair in line.split()] for line in lines]
        return [{codec: int(size) for codec, size in line} for line in pairs]

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream; see `ChunkStore.get`."""
        reader = None
        try:
            reader = self._client.do_get(flight.Ticket(f"{key} {codec}".encode()))
            for batch in reader:
                yield memoryview(batch.data.column(0)[0].as_buffer())
        except (pa.ArrowException, KeyError) as error:
            raise StoreUnavailableError(str(error)) from error
        finally:
            if reader is not None:
                reader.cancel()

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep nothing: tests put into the server."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()


@contextmanager
def flight_chunks() -> Iterator[FlightChunks]:
    """Serve an empty store."""
    server = FlightChunks()
    try:
        yield server
    finally:
        server.shutdown()


def kv_threads() -> list[str]:
    """Return the threads that stream chunks; those of engines, which wait for work, are no matter."""
    return [thread.name for thread in threading.enumerate() if thread.name in {"kv-ahead", "kv-transfer"}]
