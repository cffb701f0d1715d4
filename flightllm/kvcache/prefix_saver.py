"""Starts of prompts that an engine in this process loads from a store and saves to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from flightllm.kvcache.chunks import Chunk
from flightllm.kvcache.opening import open_codecs, open_store, profile_digest
from flightllm.kvcache.options import KvOptions
from flightllm.kvcache.prefixes import Cutting
from flightllm.kvcache.recent import RecentKeys
from flightllm.kvcache.saver import Saver
from flightllm.kvcache.stream.adapt import Adaptive
from flightllm.kvcache.stream.base import Ladder
from flightllm.kvcache.stream.fetch import fetch
from flightllm.kvcache.stream.items import Loaded, Recompute
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill, slower_first
from flightllm.kvcache.stream.source import ChunkSource
from flightllm.kvcache.where_sooner import WhereSooner

if TYPE_CHECKING:
    import torch

_SAVED_SECONDS = 60.0
"""The time for which a loaded or saved chunk is not saved again. After that, the store can have lost the chunk."""
_LEAST_TOKENS = 64
"""The fewest tokens that give a useful measurement of the time per token."""


@dataclass(frozen=True, slots=True)
class PromptStart:
    """The start of a prompt: its tokens, the chunks that can hold it, and the chunks that are worth saving."""

    tokens: Sequence[int]
    chunks: tuple[Chunk, ...]
    worth: tuple[Chunk, ...]

    @property
    def worth_tokens(self) -> int:
        """Return the number of tokens that are saved once they are computed."""
        return self.worth[-1].stop if self.worth else 0


class PrefixSaver:
    """The loads and saves of prompt starts for an engine, by `options`. One thread can use it at a time.

    `revision` names model and number type. `folder` holds the model's profile. `prefill` estimates the time of
    computing before the first measurement. `source` decides which chunks are loaded.
    """

    def __init__(self, options: KvOptions, revision: str, folder: Path, prefill: Prefill, device: str) -> None:
        codecs = open_codecs(options, folder)
        self._store = open_store(options)
        self._options = options
        self.slo_seconds = options.slo_seconds or None
        self.policy = Adaptive(Ladder(tuple(codec.name for codec in codecs), options.codec))
        self._cutting = Cutting(f"{revision} {profile_digest(codecs)}", options.chunk_tokens, options.min_tokens)
        self.source = ChunkSource(
            Link(self._store, options.pause_seconds),
            {codec.name: codec for codec in codecs},
            self.policy,
            prefill,
            device,
        )
        sooner = WhereSooner(self.source.link.meter, options.codec, options.where_sooner, device)
        self._saver = Saver(self._store, codecs, options.save_tokens, options.pause_seconds, sooner)
        self._saved = RecentKeys(_SAVED_SECONDS)
        self._least_seconds = 0.0
        """The seconds for computing almost no tokens, such as the last tokens of a prompt."""

    def start(self, tokens: Sequence[int], recurring: int, salt: str) -> PromptStart:
        """Return the start of a prompt. Other prompts share its first `recurring` tokens; `salt` separates tenants."""
        chunks = self._cutting.chunks(tokens, salt)
        wanted = {"none": 0, "all": len(tokens)}.get(self._options.save, recurring)
        return PromptStart(tokens, chunks, self._cutting.worth(chunks, wanted))

    def load(self, start: PromptStart, have: int) -> Iterator[Loaded | Recompute]:
        """Yield the chunks that the store has of a prompt's start after its first `have` tokens.

        The caller must compute the tokens of a `Recompute` before it takes the next item. Loading stops when computing
        all further tokens is faster, and when the store fails or holds no further chunk.
        """
        chunks = [chunk for chunk in start.chunks if chunk.stop > have]
        if not chunks or chunks[-1].stop - have < self._options.min_tokens:
            return
        with fetch(
            chunks,
            self.source,
            have,
            slo_seconds=self.slo_seconds,
            elapsed=self._least_seconds if self.slo_seconds else 0.0,
            limit_seconds=self._options.load_seconds,
            returns=True,
        ) as items:
            for item in items:
                if isinstance(item, Loaded):
                    self._saved.add(item.chunk.key)
                elif item.stop >= chunks[-1].stop:
                    return
                yield item

    def is_lossy(self, codec: str) -> bool:
        """Return whether a codec is lossy."""
        return codec in self._options.lossy

    def save(self, start: PromptStart, exact: int, cache: Callable[[Chunk], torch.Tensor]) -> None:
        """Save the chunks of a prompt's start that are worth it; `cache` returns a copy of a chunk's keys and values.

        Tokens from `exact` on were computed from lossy values and are not saved: errors would add up.
        """
        for chunk in start.worth:
            if chunk.stop > exact:
                return
            if chunk.key in self._saved:
                continue
            copy = cache(chunk) if self._saver.is_accepting else None
            if copy is None or not self._saver.save(chunk, lambda copy=copy: copy):  # type: ignore[misc]
                return  # chunks after it would never be loaded
            self._saved.add(chunk.key)

    def computed(self, start: int, stop: int, seconds: float) -> None:
        """Learn the time of computing the tokens `start` to `stop` of a prompt."""
        if stop - start < _LEAST_TOKENS:
            self._least_seconds += slower_first(seconds, self._least_seconds) * (seconds - self._least_seconds)
            return
        self.source = replace(self.source, prefill=self.source.prefill.learned([(start, stop)], seconds))

    def close(self) -> None:
        """Wait a moment for running saves, and close the connection."""
        self._saver.close(self._options.flush_seconds)
        self._store.close()
