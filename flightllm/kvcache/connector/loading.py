"""The worker's side of loading: chunks come from the store and go, layer by layer, into the paged memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

import structlog
import torch

from flightllm.errors import BitstreamError, StoreUnavailableError
from flightllm.kvcache.background import Background
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.codec.base import Codec
from flightllm.kvcache.connector.paged import PagedMemory
from flightllm.kvcache.connector.tasks import Load
from flightllm.kvcache.store.base import ChunkStore

_log = structlog.get_logger(__name__)

_THREADS = 4
"""Requests whose chunks are loaded at the same time."""


@dataclass(slots=True)
class _Job:
    load: Load
    deadline: float
    reached: int
    """The tokens before this one are there."""
    ended: bool = False
    abandoned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held to write, and to say that nothing is written any more."""


class Loading:
    """Loads in the background. A load that fails or takes too long is reported as such, and writes nothing after that.

    `start` and `finished` are called by one thread, the worker's.
    """

    def __init__(self, store: ChunkStore, codec: Codec, memory: PagedMemory, block_tokens: int, seconds: float) -> None:
        self._store, self._codec, self._memory = store, codec, memory
        self._block_tokens, self._seconds = block_tokens, seconds
        self._jobs: list[_Job] = []
        self._background = Background("kv-load", _THREADS)
        self._fetches = Background("kv-fetch", _THREADS)
        self.tokens = 0
        """Tokens loaded so far."""

    def start(self, load: Load) -> None:
        """Begin a load."""
        job = _Job(load, time.monotonic() + self._seconds, load.start)
        self._jobs.append(job)
        self._background.submit(partial(self._run, job))

    def finished(self) -> tuple[set[str], set[int]]:
        """Return the requests whose loads ended since the last call, and the blocks of theirs that were not filled."""
        now = time.monotonic()
        for job in self._jobs:
            if now >= job.deadline and not job.ended:
                self._abandon(job)
        ended = [job for job in self._jobs if job.ended or job.abandoned]
        self._jobs = [job for job in self._jobs if not (job.ended or job.abandoned)]
        missing: set[int] = set()
        for job in ended:
            self.tokens += job.reached - job.load.start
            if job.reached < job.load.stop:
                first, last = job.reached // self._block_tokens, (job.load.stop - 1) // self._block_tokens
                missing.update(job.load.blocks[first : last + 1])
        return {job.load.request for job in ended}, missing

    def close(self) -> None:
        """Write nothing any more."""
        for job in self._jobs:
            with job.lock:
                job.abandoned = True

    def _abandon(self, job: _Job) -> None:
        with job.lock:
            job.abandoned = not job.ended
        if job.abandoned:
            _log.warning("kv_load_too_slow", request=job.load.request, seconds=self._seconds)

    def _run(self, job: _Job) -> None:
        try:
            with torch.inference_mode(), _stream(self._memory.device):
                for chunk, data in self._fetched(job):
                    self._put(job, chunk, data)
        except Exception as error:  # noqa: BLE001 - whatever it is, what is missing is computed
            if not job.abandoned:
                _log.warning("kv_load_failed", request=job.load.request, reason=str(error) or type(error).__name__)
        finally:
            with job.lock:
                job.ended = True

    def _put(self, job: _Job, chunk: Chunk, data: bytes) -> None:
        """Decode a chunk into the memory; a job that was given up ends before its next layer."""
        shape, count = self._memory.shape, 0
        start, stop = max(chunk.start, job.load.start), min(chunk.stop, job.load.stop)
        slots = self._memory.slots(job.load.blocks, self._block_tokens, start, stop)
        expected = (2, chunk.tokens, shape.heads, shape.head_dim)
        for count, layer in enumerate(self._codec.layers(data, str(self._memory.device)), 1):
            if count > self._memory.layers or layer.shape != expected or layer.dtype != self._memory.dtype:
                raise BitstreamError(f"layer {count} of this KV chunk is {layer.dtype} {tuple(layer.shape)}")
            with job.lock:
                if job.abandoned:
                    return
                self._memory.write(count - 1, slots, layer[:, start - chunk.start : stop - chunk.start])
                _settle(self._memory.device)
        if count != self._memory.layers:
            raise BitstreamError(f"this KV chunk has {count} layers; the model has {self._memory.layers}")
        with job.lock:
            if not job.abandoned:
                job.reached = stop

    def _fetched(self, job: _Job) -> Iterator[tuple[Chunk, bytes]]:
        """Yield the chunks of a job with their bytes, fetching each while the one before is decoded."""
        coming = self._fetch(job, job.load.chunks[:1])
        for number, chunk in enumerate(job.load.chunks):
            data = coming.get(timeout=max(0.0, job.deadline - time.monotonic()))
            if isinstance(data, Exception):
                raise data
            coming = self._fetch(job, job.load.chunks[number + 1 : number + 2])
            if job.abandoned:
                return
            yield chunk, data

    def _fetch(self, job: _Job, chunks: Sequence[Chunk]) -> SimpleQueue[bytes | Exception]:
        result: SimpleQueue[bytes | Exception] = SimpleQueue()

        def fetch(key: str) -> None:
            try:
                result.put(self._read(job, key))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                result.put(error)

        for chunk in chunks:
            self._fetches.submit(partial(fetch, chunk.key))
        return result

    def _read(self, job: _Job, key: str) -> bytes:
        parts = []
        for part in self._store.get(key, self._codec.name):
            if job.abandoned or time.monotonic() >= job.deadline:
                raise StoreUnavailableError("the store of KV caches is too slow")
            parts.append(bytes(part))
        return b"".join(parts)


def _stream(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which the device does this thread's work beside the model's, not in between."""
    if device.type != "cuda":
        return nullcontext()
    stream: AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
    return stream


def _settle(device: torch.device) -> None:
    """Wait until what this thread had the device do is done: blocks are given away, or read, after that."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
