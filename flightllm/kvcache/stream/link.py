"""An engine's link to a store: its measurements and its running transfers."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial

from flightllm.errors import StoreUnavailableError
from flightllm.kvcache.store.base import ChunkStore
from flightllm.kvcache.stream.meter import Meter
from flightllm.kvcache.stream.transfer import Transfer


class Link:
    """The link to one store, shared by all requests of an engine. Thread-safe.

    Requests that want the same bitstream at the same time share one transfer. A store that failed is not asked for
    `rest_seconds`: each request would wait for it in vain.
    """

    def __init__(self, store: ChunkStore, rest_seconds: float = 5.0) -> None:
        self.meter = Meter()
        self._store = store
        self._rest_seconds = rest_seconds
        self._lock = threading.Lock()
        self._transfers: dict[tuple[str, str], Transfer] = {}
        self._resting_until = 0.0

    @property
    def up(self) -> bool:
        """Return whether the store can be asked now."""
        return time.monotonic() >= self._resting_until

    @property
    def transfers(self) -> int:
        """Return the number of running transfers that a request waits for; a cancelled one can end later."""
        with self._lock:
            return sum(transfer.is_wanted for transfer in self._transfers.values())

    def failed(self) -> None:
        """Stop asking the store for a while."""
        self._resting_until = time.monotonic() + self._rest_seconds

    def lookup(self, keys: Sequence[str]) -> list[Mapping[str, int]]:
        """Return the held bitstreams; see `ChunkStore.lookup`."""
        started = time.monotonic()
        found = self._store.lookup(keys)
        now = time.monotonic()
        self.meter.asked(now - started, now)
        if len(found) != len(keys):
            raise StoreUnavailableError(f"the KV store was asked for {len(keys)} chunks and answered for {len(found)}")
        return found

    def transfer(self, key: str, codec: str, size: int) -> Transfer:
        """Return the transfer of a bitstream, new or already running; a caller that cancels must call its `leave`."""
        with self._lock:
            under_way = self._transfers.get((key, codec))
            if under_way is not None and under_way.join():
                return under_way
            get = partial(self._store.get, key, codec)
            begun = Transfer(get, size, self.meter, partial(self._end, (key, codec)))
            self._transfers[key, codec] = begun
            return begun

    def _end(self, name: tuple[str, str], transfer: Transfer) -> None:
        with self._lock:
            if self._transfers.get(name) is transfer:
                del self._transfers[name]
