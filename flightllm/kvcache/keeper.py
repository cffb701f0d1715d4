"""Starts of prompts that an engine in this process takes from a store, and puts there."""

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
from flightllm.kvcache.stream.fetch import Source, fetch
from flightllm.kvcache.stream.items import Loaded
from flightllm.kvcache.stream.link import Link
from flightllm.kvcache.stream.prefill import Prefill

if TYPE_CHECKING:
    import torch

_SAVED_SECONDS = 60.0
"""How long a chunk that was loaded, or sent to be saved, is not sent again; the store may have lost it after that."""
_SLOWER, _QUICKER = 0.5, 0.1
"""Weights of the latest computation in what a token takes: machines have other work too, and late is worse."""
_LEAST_TOKENS = 64
"""Fewer tokens say little of what one takes."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a prompt: its tokens, the chunks it may be held as, and those it is worth keeping as."""

    tokens: Sequence[int]
    chunks: tuple[Chunk, ...]
    worth: tuple[Chunk, ...]

    @property
    def worth_tokens(self) -> int:
        """Return how many tokens are saved, once they are computed."""
        return self.worth[-1].stop if self.worth else 0


class Keeper:
    """Loads and saves starts of prompts as `options` say; for one engine's thread at a time.

    `revision` names model and number type, `folder` holds the model's profile, `prefill` is what computing takes, as
    far as it is known before anything was computed. `source` says how loads are chosen.
    """

    def __init__(self, options: KvOptions, revision: str, folder: Path, prefill: Prefill, device: str) -> None:
        codecs = open_codecs(options, folder)
        self._store = open_store(options)
        self._options = options
        self.slo_seconds = options.slo_seconds or None
        self.policy = Adaptive(Ladder(tuple(codec.name for codec in codecs), options.codec))
        self._cutting = Cutting(f"{revision} {profile_digest(codecs)}", options.chunk_tokens, options.min_tokens)
        self.source = Source(
            Link(self._store, options.pause_seconds),
            {codec.name: codec for codec in codecs},
            self.policy,
            prefill,
            device,
        )
        self._saver = Saver(self._store, codecs, options.save_tokens, options.pause_seconds)
        self._saved = RecentKeys(_SAVED_SECONDS)
        self._least_seconds = 0.0
        """What computing next to nothing takes, as the last tokens of any prompt."""

    def start(self, tokens: Sequence[int], recurring: int, salt: str) -> Start:
        """Return the start of a prompt of whose tokens so many others have too; `salt` keeps tenants apart."""
        chunks = self._cutting.chunks(tokens, salt)
        wanted = {"none": 0, "all": len(tokens)}.get(self._options.save, recurring)
        return Start(tokens, chunks, self._cutting.worth(chunks, wanted))

    def load(self, start: Start, have: int) -> Iterator[Loaded]:
        """Yield what the store has of a prompt's start beyond its first `have` tokens, chunk by chunk.

        As long as that is sooner than computing; a store that fails, or holds less, gives less.
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
        ) as items:
            for item in items:
                if not isinstance(item, Loaded):
                    return
                self._saved.add(item.chunk.key)
                yield item

    def is_lossy(self, codec: str) -> bool:
        """Tell whether what comes in a codec is not what was saved."""
        return codec in self._options.lossy

    def save(self, start: Start, exact: int, cache: Callable[[Chunk], torch.Tensor]) -> None:
        """Save what of a prompt's start is worth it; `cache` returns a copy of a chunk's keys and values.

        What follows from lossy numbers, the tokens from `exact` on, is not: errors would add up.
        """
        for chunk in start.worth:
            if chunk.stop > exact:
                return
            if chunk.key in self._saved:
                continue
            copy = cache(chunk) if self._saver.takes else None
            if copy is None or not self._saver.save(chunk, lambda copy=copy: copy):  # type: ignore[misc]
                return  # nobody would load those after it
            self._saved.add(chunk.key)

    def computed(self, start: int, stop: int, seconds: float) -> None:
        """Learn how long the tokens `start` to `stop` of a prompt took."""
        if stop - start < _LEAST_TOKENS:
            self._least_seconds += _weight(seconds, self._least_seconds) * (seconds - self._least_seconds)
            return
        prefill = self.source.prefill
        expected = prefill(start, stop)
        share = 1.0 + _weight(seconds, expected) * (seconds / expected - 1.0)
        rates = prefill.rates._replace(computed=prefill.rates.computed * share)
        self.source = replace(self.source, prefill=replace(prefill, rates=rates))

    def close(self) -> None:
        """Wait a moment for what is being saved, and end the connection."""
        self._saver.close(self._options.flush_seconds)
        self._store.close()


def _weight(seconds: float, expected: float) -> float:
    return _SLOWER if seconds > expected else _QUICKER
