"""The chunks of a prompt that can be in the store, and those worth saving."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flightllm.kvcache.chunks import Chunk, prefix_chunks


@dataclass(frozen=True, slots=True)
class Cutting:
    """The parameters for cutting prompts; engines share chunks only if these parameters are equal."""

    revision: str
    chunk_tokens: int
    min_tokens: int
    window: int | None = None
    """The sliding window of all layers, in tokens: no chunk reaches beyond a prompt's first window."""

    def chunks(self, tokens: Sequence[int], salt: str) -> tuple[Chunk, ...]:
        """Return the chunks of a prompt that a store can hold, sorted by their ends."""
        return tuple(prefix_chunks(tokens[: self.window], self.revision, self.chunk_tokens, salt))

    def worth(self, chunks: Sequence[Chunk], recurring: int) -> tuple[Chunk, ...]:
        """Return the chunks to save for a prompt whose first `recurring` tokens recur; none if they are too few."""
        if recurring < self.min_tokens:
            return ()
        return _farthest([chunk for chunk in chunks if chunk.stop <= recurring], 0)


def leading(chunks: Sequence[Chunk], held: Collection[str], have: int = 0) -> tuple[Chunk, ...]:
    """Return the chain of held chunks to load; it begins with a chunk that contains the first missing token."""
    return _farthest([chunk for chunk in chunks if chunk.key in held], have)


def _farthest(chunks: Sequence[Chunk], have: int) -> tuple[Chunk, ...]:
    """Return the chain of chunks that starts at `have` and reaches farthest; `chunks` are sorted by their ends.

    Taking the longest chunk is always right: each chunk that can follow a shorter one ends before the longest does.
    """
    longest = {chunk.start: chunk for chunk in chunks}
    following = next((chunk for chunk in reversed(chunks) if chunk.start <= have < chunk.stop), None)
    found: list[Chunk] = []
    while following is not None:
        found.append(following)
        following = longest.get(following.stop)
    return tuple(found)
