"""The interface of a store of KV chunks: it keeps bitstreams by the chunk's key and the codec's name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class ChunkStore(Protocol):
    """A store of bitstreams. A chunk can have one for each codec and level. Thread-safe."""

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return for each chunk the sizes in bytes of its bitstreams by codec name; empty for a chunk that is not held.

        Raises:
            StoreUnavailableError: the store cannot be reached, or refuses the request.
        """

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream in parts of at most 1 MiB, as they arrive; closing the iterator ends the transfer.

        Raises:
            NotFoundError: the store does not hold the bitstream.
                StoreUnavailableError: the store cannot be reached, or the connection broke.
        """

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream in place of an older one of the same name, atomically.

        Raises:
            LimitExceededError: the bitstream is larger than the store.
            StoreUnavailableError: the store cannot be reached, or its disk is full.
        """
