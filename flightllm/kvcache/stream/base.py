"""The interface of streaming policies and their inputs: the held chunks, the costs and the time left."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

from flightllm.kvcache.chunks import Chunk

TEXT: Final = "text"
"""The choice to compute the rest of a prompt instead of fetching it."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The codecs from best to least quality, which is also from most to fewest bytes, and the default codec."""

    codecs: tuple[str, ...]
    default: str

    def __post_init__(self) -> None:
        """Check that the names are consistent."""
        if len(set(self.codecs)) < len(self.codecs) or TEXT in self.codecs:
            raise ValueError(f"codecs: expected distinct names, none of them {TEXT!r}; got {', '.join(self.codecs)}")
        if self.default not in self.codecs:
            raise ValueError(f"default: expected one of {', '.join(self.codecs)}; got {self.default!r}")

    def as_good(self, codecs: Sequence[str]) -> list[str]:
        """Return those of `codecs` with at least the quality of the default codec."""
        return [codec for codec in codecs if codec in self.codecs[: self.codecs.index(self.default) + 1]]

    def nearest(self, codec: str, sizes: Mapping[str, int]) -> str | None:
        """Return the held codec nearest to `codec`: itself, else the next smaller one, else a better one."""
        place = self.codecs.index(codec)
        near = (*self.codecs[place:], *reversed(self.codecs[:place]))
        return next((name for name in near if name in sizes), None)


@dataclass(frozen=True, slots=True)
class HeldChunk:
    """A chunk; `sizes` has the bytes of the chunk in each codec that the store has. `sizes` can be empty."""

    chunk: Chunk
    sizes: Mapping[str, int]

    def without(self, codec: str) -> "HeldChunk":
        """Return the chunk without one of its codecs."""
        return HeldChunk(self.chunk, {name: size for name, size in self.sizes.items() if name != codec})


@dataclass(frozen=True, slots=True)
class ChunkCosts:
    """The seconds that an engine needs to get a chunk."""

    prefill: Callable[[int, int], float]
    """Seconds to compute a prompt's tokens from one position to another, with the tokens before them available."""
    decode: Callable[[str, int], float] = field(default=lambda _codec, _tokens: 0.0)
    """Seconds to decode a number of tokens from a codec, and to load them."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The inputs for the choice of the next chunk. Times are in seconds, throughput is in bytes a second."""

    left: Sequence[HeldChunk]
    """The chunks that are still missing, in order; at least one."""
    costs: ChunkCosts
    throughput: float | None = None
    """The last measurement of the whole link; None if unknown."""
    transfers: int = 1
    """The number of transfers that share the link, including this one."""
    round_trip: float = 0.0
    elapsed: float = 0.0
    slo: float | None = None
    """The time limit for the whole fetch, counted from the same start as `elapsed`; None: as soon as possible."""
    busy: float = 0.0
    """The time until the arrived chunks are decoded."""
    have: int = 0
    """The tokens before this position are available, even if the next chunk begins with some of them."""

    @property
    def start(self) -> int:
        """Return the position of the first missing token."""
        return max(self.have, self.left[0].chunk.start)

    @property
    def rate(self) -> float | None:
        """Return the bytes a second that this transfer can expect."""
        return None if self.throughput is None else self.throughput / max(1, self.transfers)

    def text_seconds(self) -> float:
        """Return the seconds until all missing tokens are computed."""
        return self.busy + self.costs.prefill(self.start, self.left[-1].chunk.stop)

    def fetch_seconds(self, codec: str, ladder: Ladder, begun: tuple[str, int] | None = None) -> float:
        """Return the seconds until all missing chunks are fetched and decoded.

        From the first chunk that the store lacks, all further tokens are computed instead.

        While a chunk is decoded, only the next chunk is transferred. If the transfer of the next chunk has already
        started, `begun` is its codec and the number of bytes still to come. An unknown rate counts as unlimited.
        """
        taken, done = 0.0, self.busy
        for position, held in enumerate(self.left):
            if position == 0 and begun is not None:
                name, arrival = begun[0], self._travel(begun[1])
            else:
                near = ladder.nearest(codec, held.sizes)
                if near is None:
                    return done + self.costs.prefill(max(self.have, held.chunk.start), self.left[-1].chunk.stop)
                name, arrival = near, taken + self.round_trip + self._travel(held.sizes[near])
            taken = max(arrival, done)
            done = taken + self.costs.decode(name, held.chunk.tokens)
        return done

    def fits(self, seconds: float) -> bool:
        """Return whether work of `seconds` from now ends within the SLO; without an SLO it always does."""
        return self.slo is None or self.elapsed + seconds <= self.slo

    def _travel(self, size: int) -> float:
        rate = self.rate
        if rate is None:
            return 0.0
        return size / rate if rate else inf


class FetchPolicy(Protocol):
    """A policy that chooses the codec of each chunk. Stateless, so thread-safe."""

    def choose(self, now: Situation) -> str:
        """Return the held codec in which to fetch the next chunk, or `TEXT` to compute all missing tokens."""

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Return whether to continue the running transfer of the next chunk, with `rest` bytes still to come."""
