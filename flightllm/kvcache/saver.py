"""Save chunks to a store in the background; a background thread encodes them, so engines do not wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import structlog

from flightllm.errors import StoreUnavailableError
from flightllm.kvcache.background import Background
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.store.base import ChunkStore
from flightllm.kvcache.stream.meter import Meter
from flightllm.kvcache.where_sooner import WhereSooner

if TYPE_CHECKING:
    import torch

_log = structlog.get_logger(__name__)

Copied = Callable[[], "torch.Tensor"]
"""Waits until a chunk's keys and values are ready for coding, and returns them."""


@dataclass(slots=True)
class SaveCounts:
    """The outcomes of saves: `held` chunks were already in the store, `dropped` chunks found no room in the queue."""

    saved: int = 0
    held: int = 0
    dropped: int = 0
    failed: int = 0
    bytes: int = 0


class Saver:
    """Saves each chunk in every codec for which it is worth it; see `WhereSooner`.

    New chunks are dropped while `most` tokens wait or the store fails.
    """

    def __init__(
        self, store: ChunkStore, codecs: Sequence[Codec], most: int, pause: float, sooner: WhereSooner | None = None
    ) -> None:
        self._store, self._pause = store, pause
        self._sooner = sooner or WhereSooner(Meter(), "", None)
        self._codecs = sorted(codecs, key=lambda codec: self._sooner.order(codec.name))
        self._background = Background("kv-save")
        self._most, self._waiting = most, 0
        self._lock = threading.Lock()
        self._paused_until = 0.0
        self.counts = SaveCounts()

    @property
    def is_accepting(self) -> bool:
        """Return whether a chunk would be accepted now; otherwise copying it is useless."""
        return self._waiting < self._most and time.monotonic() >= self._paused_until

    def save(self, chunk: Chunk, copied: Copied) -> bool:
        """Queue a chunk to be saved; return whether it found room."""
        if not self.is_accepting:
            self.counts.dropped += 1
            return False
        self._wait(chunk.tokens)
        self._background.submit(partial(self._keep, chunk, copied))
        return True

    def close(self, seconds: float) -> SaveCounts:
        """Wait at most `seconds` until all chunks are saved, and return the outcomes."""
        if not self._background.wait(seconds):
            _log.warning("kv_saves_cut_short", seconds=seconds)
        self._background.close()
        if self.counts.dropped or self.counts.failed:
            _log.warning("kv_saves_lost", dropped=self.counts.dropped, failed=self.counts.failed)
        return self.counts

    def _wait(self, tokens: int) -> None:
        with self._lock:
            self._waiting += tokens

    def _keep(self, chunk: Chunk, copied: Copied) -> None:
        try:
            if time.monotonic() < self._paused_until:
                self.counts.dropped += 1
                return
            self._put(chunk, copied)
        except Exception as error:  # noqa: BLE001 - a chunk that is not saved is computed again
            self.counts.failed += 1
            if isinstance(error, StoreUnavailableError):
                self._paused_until = time.monotonic() + self._pause
            _log.warning("kv_save_failed", reason=str(error) or type(error).__name__)
        finally:
            self._wait(-chunk.tokens)

    def _put(self, chunk: Chunk, copied: Copied) -> None:
        import torch

        cache, key = copied(), chunk.key
        [held] = self._store.lookup([key])
        size, put = held.get(self._codecs[0].name, 0), False
        for codec in self._codecs:
            if codec.name in held or not self._sooner.is_worth(codec.name, size, chunk.tokens):
                continue
            with torch.inference_mode():
                data = codec.encode(cache)
                self._sooner.learn(codec, data, chunk.tokens)
            started = time.monotonic()
            self._store.put(key, codec.name, data)
            self._sooner.sent(len(data), time.monotonic() - started)
            self.counts.bytes += len(data)
            size, put = size or len(data), True
        if put:
            self.counts.saved += 1
        else:
            self.counts.held += 1
