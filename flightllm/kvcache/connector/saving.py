"""The worker's side of saving: chunks are copied out after the step; a background thread encodes and stores them."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
import torch

from flightllm.kvcache.connector.paged import PagedMemory
from flightllm.kvcache.connector.tasks import Save
from flightllm.kvcache.saver import Copied, SaveCounts, Saver

_log = structlog.get_logger(__name__)


class ChunkCopier:
    """Copies chunks for `saver`, while it accepts chunks.

    Only the worker's thread must call `take` and `close`.
    """

    def __init__(self, saver: Saver, memory: PagedMemory, block_tokens: int) -> None:
        self._saver, self._memory, self._block_tokens = saver, memory, block_tokens
        self.dropped: set[str] = set()
        """Keys of chunks that were not accepted."""

    @property
    def counts(self) -> SaveCounts:
        """Return the outcomes of saves so far."""
        return self._saver.counts

    def take(self, saves: Iterable[Save]) -> None:
        """Copy chunks out of the paged memory, ordered after the step's work and before the next one's.

        After a chunk that was not accepted, the later chunks of its request are skipped: they would never be loaded.
        """
        cut: set[str] = set()
        for save in saves:
            if save.request in cut or not self._saver.is_accepting:
                self.counts.dropped += 1
            elif self._save(save):
                continue
            cut.add(save.request)
            self.dropped.add(save.chunk.key)

    def close(self, seconds: float) -> SaveCounts:
        """Wait at most `seconds` until all chunks are saved, and return the outcomes."""
        return self._saver.close(seconds)

    def _save(self, save: Save) -> bool:
        try:
            copied = self._copied(save)
        except RuntimeError as error:  # no memory for the copy: the step continues
            self.counts.failed += 1
            _log.warning("kv_save_failed", reason=str(error))
            return False
        return self._saver.save(save.chunk, copied)

    def _copied(self, save: Save) -> Copied:
        """Start a copy to the host's memory; return a function that waits for it and returns it."""
        slots = self._memory.slots(save.blocks, self._block_tokens, save.chunk.start, save.chunk.stop)
        with torch.inference_mode():
            return _to_host(self._memory.read(slots))


def _to_host(cache: torch.Tensor) -> Copied:
    """Start a copy to the host's memory; return a function that waits for it and returns it."""
    if cache.device.type != "cuda":
        return lambda: cache
    host = torch.empty(cache.shape, dtype=cache.dtype, pin_memory=True)
    host.copy_(cache, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()

    def arrived() -> torch.Tensor:
        event.synchronize()
        return host

    return arrived
