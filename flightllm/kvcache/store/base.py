"""What a store of KV chunks offers: bitstreams in and out, by the key of a chunk and the name of its codec."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol


class ChunkStore(Protocol):
    """Keeps bitstreams; several codecs' and levels' of the same chunk. Safe to call from several threads at once."""

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return, for each chunk, the bytes of what is held of it by codec name; nothing held is an empty mapping.

        Raises:
            StoreUnavailableError: the store cannot be reached, or refuses.
        """

    def get(self, key: str, codec: str) -> Iterator[memoryview]:
        """Yield a bitstream in parts of at most 1 MiB, as they arrive; closing the iterator ends the transfer.

        Raises:
            NotFoundError: it is not held, or no longer.
            StoreUnavailableError: the store cannot be reached, or went away.
        """

    def put(self, key: str, codec: str, data: bytes) -> None:
        """Keep a bitstream, in place of one of the same name; all of it or none.

        Raises:
            LimitExceededError: it is larger than the store.
            StoreUnavailableError: the store cannot be reached, or its disk is full.
        """
