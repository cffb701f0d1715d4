"""Which chunks of a prompt may be in the store, and which belong there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flightllm.kvcache.chunks import Chunk, prefix_chunks


@dataclass(frozen=True, slots=True)
class Cutting:
    """How prompts are cut, equally wherever their chunks are to meet."""

    revision: str
    chunk_tokens: int
    min_tokens: int

    def chunks(self, tokens: Sequence[int], salt: str) -> tuple[Chunk, ...]:
        """Return the chunks that may be held of a prompt, by where they end."""
        return tuple(prefix_chunks(tokens, self.revision, self.chunk_tokens, salt))

    def worth(self, chunks: Sequence[Chunk], recurring: int) -> tuple[Chunk, ...]:
        """Return those of a prompt's chunks to keep whose first tokens, so many, recur; none of a short start."""
        if recurring < self.min_tokens:
            return ()
        return _farthest([chunk for chunk in chunks if chunk.stop <= recurring], 0)


def leading(chunks: Sequence[Chunk], held: Collection[str], have: int = 0) -> tuple[Chunk, ...]:
    """Return the chunks to load of those held: one follows the other, from the first one that is not there on."""
    return _farthest([chunk for chunk in chunks if chunk.key in held], have)


def _farthest(chunks: Sequence[Chunk], have: int) -> tuple[Chunk, ...]:
    """Return those of some chunks, by where they end, that follow one another from a place on and reach farthest.

    The longest is always the one to take: all that may follow a shorter one ends before it does.
    """
    longest = {chunk.start: chunk for chunk in chunks}
    following = next((chunk for chunk in reversed(chunks) if chunk.start <= have < chunk.stop), None)
    found: list[Chunk] = []
    while following is not None:
        found.append(following)
        following = longest.get(following.stop)
    return tuple(found)
