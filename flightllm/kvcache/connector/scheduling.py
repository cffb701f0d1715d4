"""The scheduler's side: decide for each request which chunks are loaded from the store and saved to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.connector.lookups import Lookups
from flightllm.kvcache.connector.tasks import LoadTask, Save
from flightllm.kvcache.options import Saved
from flightllm.kvcache.prefixes import Cutting, leading
from flightllm.kvcache.recent import RecentKeys

_PLANNED_SECONDS = 60.0
"""The time for which a chunk that was queued for saving is not queued again. After that, the store is asked."""

_FREED = 0
"""vLLM's number for the place of a block that it freed behind a sliding window."""


@dataclass(frozen=True, slots=True)
class ScheduledPrompt:
    """The relevant parts of a request: its tokens, how many first tokens other prompts share, and its tenant's salt."""

    request: str
    tokens: Sequence[int]
    recurring: int = 0
    salt: str = ""


@dataclass(slots=True)
class _Wanted:
    chunks: tuple[Chunk, ...]
    have: int = 0
    """The tokens whose blocks were already filled before the request got further blocks."""
    load: tuple[Chunk, ...] = ()
    start: int = 0
    stop: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(chunk.key for chunk in self.chunks)

    @property
    def tokens(self) -> int:
        """Return the most tokens that could be loaded."""
        return self.chunks[-1].stop if self.chunks else 0


@dataclass(slots=True)
class _Saving:
    chunks: list[Chunk]
    blocks: list[int] = field(default_factory=list)


class Scheduling:
    """The decisions for each request. Only the scheduler's thread must use it.

    With `sharing`, a request waits while another request loads the chunks that it wants, and then finds its blocks in
    the prefix cache. With `lossy` loads, tokens computed from loaded blocks are not saved: errors would add up.

    If every layer has a sliding window, the engine frees the blocks behind the window. A load that fails must not leave
    such a gap before the tokens that are then computed. So loads end within the window of `cutting`.
    """

    def __init__(
        self,
        cutting: Cutting,
        lookups: Lookups,
        saved: Saved,
        *,
        block_tokens: int,
        sharing: bool,
        lossy: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cutting, self._lookups = cutting, lookups
        self._saved, self._sharing = saved, sharing
        self._block_tokens, self._lossy = block_tokens, lossy
        self._inexact: set[int] = set()
        """Blocks that lossy loads filled, until another request gets them."""
        self._wanted: dict[str, _Wanted] = {}
        self._loading: dict[str, LoadTask] = {}
        self._saving: dict[str, _Saving] = {}
        self._loads: list[LoadTask] = []
        self._computed_instead: set[str] = set()
        self._planned = RecentKeys(_PLANNED_SECONDS, clock=clock)

    def matched(self, prompt: ScheduledPrompt, computed: int) -> int | None:
        """Return the number of tokens after the `computed` ones that can be loaded; None if unknown: ask again.

        The prompt's last token is always computed, because the answer's first token depends on it. The window's last
        token is computed too: after it, the first block would be freed.
        """
        wanted = self._wanted.get(prompt.request)
        if wanted is None:
            wanted = self._wanted[prompt.request] = _Wanted(self._cutting.chunks(prompt.tokens, prompt.salt))
        wanted.load, wanted.have = (), computed
        if prompt.request in self._computed_instead:
            return 0
        most = min(len(prompt.tokens), self._cutting.window or len(prompt.tokens)) - 1
        if min(wanted.tokens, most) - computed < self._cutting.min_tokens:
            return 0
        held = self._lookups.held(wanted.keys)
        if held is None:
            return None
        chunks = leading(wanted.chunks, held, computed)
        stop = min(chunks[-1].stop, most) if chunks else 0
        if stop - computed < self._cutting.min_tokens:
            return 0
        needed = tuple(chunk for chunk in chunks if chunk.start < stop)
        if self._sharing and self._loads_any({chunk.key for chunk in needed}):
            return None
        wanted.load, wanted.start, wanted.stop = needed, computed, stop
        return stop - computed

    def allocated(self, prompt: ScheduledPrompt, blocks: Sequence[int], loaded: int) -> None:
        """Record a request's blocks; `loaded` tokens will come from the store."""
        self._saving.pop(prompt.request, None)  # from before a preemption: tokens loaded now can be lossy
        wanted = self._wanted.get(prompt.request)
        had = blocks[: self._blocks(wanted.have) if wanted else 0]
        self._inexact.difference_update(blocks[len(had) :])
        if loaded and wanted is not None and wanted.load:
            start, wanted.have = wanted.start, wanted.start + loaded
            load = LoadTask(prompt.request, wanted.load, start, wanted.have, tuple(blocks))
            self._loading[prompt.request] = load
            self._loads.append(load)
            if self._lossy:
                self._inexact.update(blocks[len(had) : self._blocks(wanted.have)])
            return
        if not self._inexact.isdisjoint(had):
            return
        chunks = [chunk for chunk in self._worth_saving(prompt, wanted) if not self._known(chunk.key, wanted)]
        if chunks:
            self._saving[prompt.request] = _Saving(chunks)

    def step(
        self, started: Mapping[str, Sequence[int]], added: Mapping[str, Sequence[int]], ends: Mapping[str, int]
    ) -> tuple[list[LoadTask], list[Save]]:
        """Return the loads and saves of a step.

        `started` has all blocks of the requests that begin or resume in the step. `added` has the new blocks of other
        requests. `ends` has the number of computed tokens of each request at the end of the step.
        """
        for given in added.values():
            self._inexact.difference_update(given)
        saves: list[Save] = []
        for request, end in ends.items():
            saving = self._saving.get(request)
            if saving is None:
                continue
            if request in started:
                saving.blocks = list(started[request])
            saving.blocks += added.get(request, ())
            while saving.chunks and saving.chunks[0].stop <= end:
                chunk = saving.chunks.pop(0)
                if _FREED in saving.blocks[chunk.start // self._block_tokens : self._blocks(chunk.stop)]:
                    saving.chunks.clear()  # the later chunks would never be loaded
                elif chunk.key not in self._planned:
                    self._planned.add(chunk.key)
                    saves.append(Save(request, chunk, tuple(saving.blocks)))
            if not saving.chunks:
                del self._saving[request]
        loads, self._loads = self._loads, []
        return loads, saves

    def loaded(self, requests: Iterable[str], invalid: set[int], chosen: Collection[str] = ()) -> None:
        """Record that loads of requests ended, and which blocks they did not fill.

        For the requests in `chosen` the store is not at fault: computing is faster.
        """
        for request in requests:
            load = self._loading.pop(request, None)
            if load is not None and not invalid.isdisjoint(load.blocks):
                self._inexact -= invalid
                if request in self._wanted:  # otherwise the request has already ended
                    self._computed_instead.add(request)
                if request not in chosen:
                    self._lookups.failed(chunk.key for chunk in load.chunks)

    def dropped(self, keys: Iterable[str]) -> None:
        """Record that queued chunks were not saved, so that they can be queued again."""
        for key in keys:
            self._planned.discard(key)

    def finished(self, request: str) -> None:
        """Forget a request."""
        self._wanted.pop(request, None)
        self._saving.pop(request, None)
        self._computed_instead.discard(request)

    def close(self) -> None:
        """Stop asking the store."""
        self._lookups.close()

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_tokens)

    def _recurring(self, prompt: ScheduledPrompt) -> int:
        return len(prompt.tokens) if self._saved == "all" else min(prompt.recurring, len(prompt.tokens))

    def _worth_saving(self, prompt: ScheduledPrompt, wanted: _Wanted | None) -> Sequence[Chunk]:
        if self._saved == "none":
            return ()
        chunks = wanted.chunks if wanted is not None else self._cutting.chunks(prompt.tokens, prompt.salt)
        return self._cutting.worth(chunks, self._recurring(prompt))

    def _known(self, key: str, wanted: _Wanted | None) -> bool:
        """Return whether a chunk is in the store by the last lookup, or queued for saving."""
        held = self._lookups.seen(wanted.keys) if wanted is not None else frozenset()
        return key in held or key in self._planned

    def _loads_any(self, keys: set[str]) -> bool:
        return any(chunk.key in keys for load in self._loading.values() for chunk in load.chunks)
