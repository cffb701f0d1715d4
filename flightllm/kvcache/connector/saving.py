"""The worker's side of saving: chunks are copied out after the step, then coded and put into the store meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import structlog
import torch

from flightllm.errors import StoreUnavailableError
from flightllm.kvcache.background import Background
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.connector.paged import PagedMemory
from flightllm.kvcache.connector.tasks import Save
from flightllm.kvcache.store.base import ChunkStore

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class SaveCounts:
    """What became of the chunks to save: `held` ones were in the store already, `dropped` ones found no room."""

    saved: int = 0
    held: int = 0
    dropped: int = 0
    failed: int = 0
    bytes: int = 0


class Saving:
    """Saves in the background, so many chunks waiting at most: what finds no room, or no store, is dropped."""

    def __init__(
        self, store: ChunkStore, codec: Codec, memory: PagedMemory, block_tokens: int, most: int, pause: float
    ) -> None:
        self._store, self._codec, self._memory = store, codec, memory
        self._block_tokens, self._pause = block_tokens, pause
        self._background = Background("kv-save", most=most)
        self._paused_until = 0.0
        self.counts = SaveCounts()

    def take(self, saves: Sequence[Save]) -> None:
        """Copy chunks out of the paged memory, ordered after the step's work and before the next one's."""
        for save in saves:
            if self._background.full or time.monotonic() < self._paused_until:
                self.counts.dropped += 1
                continue
            try:
                cache, arrived = self._copied(save)
            except RuntimeError as error:  # no memory for the copy: the step goes on
                self.counts.failed += 1
                _log.warning("kv_save_failed", reason=str(error))
                continue
            if not self._background.submit(partial(self._keep, save.chunk.key, cache, arrived)):
                self.counts.dropped += 1

    def close(self, seconds: float) -> SaveCounts:
        """Wait until everything is saved, so long at most, and return what became of it."""
        if not self._background.wait(seconds):
            _log.warning("kv_saves_cut_short", seconds=seconds)
        if self.counts.dropped or self.counts.failed:
            _log.warning("kv_saves_lost", dropped=self.counts.dropped, failed=self.counts.failed)
        return self.counts

    def _copied(self, save: Save) -> tuple[torch.Tensor, Callable[[], None]]:
        """Return a chunk in the host's memory, and a function that waits until it is there."""
        slots = self._memory.slots(save.blocks, self._block_tokens, save.chunk.start, save.chunk.stop)
        with torch.inference_mode():
            return _to_host(self._memory.read(slots))

    def _keep(self, key: str, cache: torch.Tensor, arrived: Callable[[], None]) -> None:
        if time.monotonic() < self._paused_until:
            self.counts.dropped += 1
            return
        try:
            arrived()
            [held] = self._store.lookup([key])
            if self._codec.name in held:
                self.counts.held += 1
                return
            with torch.inference_mode():
                data = self._codec.encode(cache)
            self._store.put(key, self._codec.name, data)
        except Exception as error:  # noqa: BLE001 - what is not saved is computed again
            self.counts.failed += 1
            if isinstance(error, StoreUnavailableError):
                self._paused_until = time.monotonic() + self._pause
            _log.warning("kv_save_failed", reason=str(error) or type(error).__name__)
            return
        self.counts.saved += 1
        self.counts.bytes += len(data)


def _to_host(cache: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None]]:
    """Return a copy in the host's memory, and a function that waits until it is there."""
    if cache.device.type != "cuda":
        return cache, lambda: None
    host = torch.empty(cache.shape, dtype=cache.dtype, pin_memory=True)
    host.copy_(cache, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return host, event.synchronize
