"""The worker's side of loading: chunks from the store are written, layer by layer, into the paged memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog
import torch

from flightllm.errors import BitstreamError
from flightllm.kvcache.background import Background
from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.connector.paged import PagedMemory
from flightllm.kvcache.connector.tasks import LoadTask
from flightllm.kvcache.stream.fetch import fetch
from flightllm.kvcache.stream.items import Recompute
from flightllm.kvcache.stream.source import ChunkSource

_log = structlog.get_logger(__name__)

_THREADS = 4
"""The number of requests whose chunks are loaded at the same time."""


@dataclass(slots=True)
class _Job:
    load: LoadTask
    started: float
    reached: int
    """The tokens before this position are loaded."""
    ended: bool = False
    abandoned: bool = False
    chosen: bool = False
    """Whether the load ended early because computing is faster."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held to write into the memory, and to set `abandoned`."""


class Loading:
    """Loads chunks in the background. A load that fails or times out is reported, and then writes nothing more.

    A load times out after `seconds`. With `slo` it takes the best quality that arrives within that time. A load ends
    early if computing is faster. Only the worker's thread must call `start` and `finished`.
    """

    def __init__(
        self, source: ChunkSource, memory: PagedMemory, block_tokens: int, seconds: float, slo: float | None = None
    ) -> None:
        self._source, self._memory, self._block_tokens = source, memory, block_tokens
        self._seconds, self._slo = seconds, slo
        self._jobs: list[_Job] = []
        self._background = Background("kv-load", _THREADS)
        self.tokens = 0
        """The number of tokens loaded so far."""
        self.chosen: set[str] = set()
        """Requests whose loads ended early because computing is faster, not by a fault."""
        self.prefill = source.prefill
        """The latest estimate of the time of computing."""

    def start(self, load: LoadTask) -> None:
        """Start a load."""
        job = _Job(load, time.monotonic(), load.start)
        self._jobs.append(job)
        self._background.submit(partial(self._run, job))

    def finished(self) -> tuple[set[str], set[int]]:
        """Return the requests whose loads ended since the last call, and those of their blocks that were not filled."""
        now = time.monotonic()
        for job in self._jobs:
            if now - job.started >= self._seconds and not job.ended:
                self._abandon(job)
        ended = [job for job in self._jobs if job.ended or job.abandoned]
        self._jobs = [job for job in self._jobs if not (job.ended or job.abandoned)]
        missing: set[int] = set()
        for job in ended:
            self.tokens += job.reached - job.load.start
            if job.chosen:
                self.chosen.add(job.load.request)
            if job.reached < job.load.stop:
                first, last = job.reached // self._block_tokens, (job.load.stop - 1) // self._block_tokens
                missing.update(job.load.blocks[first : last + 1])
        return {job.load.request for job in ended}, missing

    def close(self) -> None:
        """Stop all writes."""
        self._background.close()
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
                self._fill(job)
        except Exception as error:  # noqa: BLE001 - after any error, missing tokens are computed
            if not job.abandoned:
                _log.warning("kv_load_failed", request=job.load.request, reason=str(error) or type(error).__name__)
        finally:
            with job.lock:
                job.ended = True

    def _fill(self, job: _Job) -> None:
        """Load chunk by chunk until computing is faster; each chunk is decoded while the next one is transferred."""
        elapsed = time.monotonic() - job.started
        if job.abandoned or elapsed >= self._seconds:  # it waited too long in the queue; the store is not at fault
            return
        load, source = job.load, replace(self._source, prefill=self.prefill)
        with fetch(
            load.chunks, source, load.start, slo_seconds=self._slo, elapsed=elapsed, limit_seconds=self._seconds
        ) as items:
            for item in items:
                if job.abandoned:
                    return
                if isinstance(item, Recompute):
                    job.chosen = item.reason == "chosen"
                    return
                self._put(job, item.chunk, item.layers)

    def _put(self, job: _Job, chunk: Chunk, layers: Iterator[torch.Tensor]) -> None:
        """Write a chunk into the memory; an abandoned job ends before its next layer."""
        shape, count = self._memory.shape, 0
        start, stop = max(chunk.start, job.load.start), min(chunk.stop, job.load.stop)
        slots = self._memory.slots(job.load.blocks, self._block_tokens, start, stop)
        expected = (2, chunk.tokens, shape.heads, shape.head_dim)
        for count, layer in enumerate(layers, 1):
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


def _stream(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which the device runs this thread's work in parallel to the model's."""
    if device.type != "cuda":
        return nullcontext()
    stream: AbstractContextManager[Any] = torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]
    return stream


def _settle(device: torch.device) -> None:
    """Wait until the device has done this thread's work: afterwards blocks can be freed or read."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
