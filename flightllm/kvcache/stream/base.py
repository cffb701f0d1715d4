"""The interface of streaming policies and their inputs: the held chunks, the costs and the time left."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

from flightllm.kvcache.chunks import Chunk

TEXT: Final = "text"
"""The choice to compute all missing tokens instead of fetching them."""
TEXT_CHUNK: Final = "text chunk"
"""The choice to compute only the next chunk, and to choose again for the chunks after it."""


_UNKNOWN_LINK: Final = 125e6
"""The bytes a second that an unmeasured link is expected to carry: 1 Gbit/s, between a wide-area and a local link."""


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
    returns: bool = False
    """Whether the engine can compute a chunk and then load the next one. Otherwise it computes all that follows."""

    @property
    def start(self) -> int:
        """Return the position of the first missing token."""
        return max(self.have, self.left[0].chunk.start)

    @property
    def unheld(self) -> str:
        """Return the choice for a chunk that the store lacks: compute only this chunk if a later one can be loaded."""
        later = self.returns and any(held.sizes for held in self.left[1:])
        return TEXT_CHUNK if later else TEXT

    @property
    def rate(self) -> float | None:
        """Return the bytes a second that this transfer can expect."""
        return None if self.throughput is None else self.throughput / max(1, self.transfers)

    def text_seconds(self) -> float:
        """Return the seconds until all missing tokens are computed."""
        return self.busy + self.costs.prefill(self.start, self.left[-1].chunk.stop)

    def fetch_seconds(
        self,
        codec: str,
        ladder: Ladder,
        begun: tuple[str, int] | None = None,
        *,
        then: str | None = None,
        slower: float = 1.0,
    ) -> float:
        """Return the seconds until all missing chunks are fetched and decoded, or computed.

        The next chunk takes `codec`, which can be `TEXT_CHUNK`. The later ones take `then`, which can be `TEXT`; by
        default they take `codec` too. A chunk that the store lacks is computed, and all after it if the engine cannot
        return.

        While a chunk is decoded or computed, only the next chunk is transferred. If the transfer of the next chunk has
        already started, `begun` is its codec and the number of bytes still to come. The link is slower than measured
        by the factor `slower`. An unknown link counts as one of 1 Gbit/s.

        Example: two chunks take 1 s each on the link and 0.2 s each to decode. The first one is decoded while the
        second one is transferred, so all is there after 2.2 s. If the first one is computed in 0.5 s instead, the
        second one is transferred meanwhile, and all is there after 1.2 s.
        """
        taken, done, last = 0.0, self.busy, self.left[-1].chunk.stop
        for position, held in enumerate(self.left):
            wanted, start = codec if position == 0 or then is None else then, max(self.have, held.chunk.start)
            if position == 0 and begun is not None:
                name, arrival = begun[0], self._travel(begun[1], slower)
            else:
                near = None if wanted in {TEXT, TEXT_CHUNK} else ladder.nearest(wanted, held.sizes)
                if near is None:
                    alone = wanted == TEXT_CHUNK or (wanted != TEXT and self.returns)
                    taken = max(taken, done)
                    done = taken + self.costs.prefill(start, held.chunk.stop if alone else last)
                    if not alone:
                        return done
                    continue
                name, arrival = near, taken + self.round_trip + self._travel(held.sizes[near], slower)
            taken = max(arrival, done)
            done = taken + self.costs.decode(name, held.chunk.tokens)
        return done

    def fits(self, seconds: float) -> bool:
        """Return whether work of `seconds` from now ends within the SLO; without an SLO it always does."""
        return self.slo is None or self.elapsed + seconds <= self.slo

    def _travel(self, size: int, slower: float) -> float:
        rate = _UNKNOWN_LINK if self.rate is None else self.rate
        return slower * size / rate if rate else inf


class FetchPolicy(Protocol):
    """A policy that chooses the codec of each chunk. Stateless, so thread-safe."""

    def choose(self, now: Situation) -> str:
        """Return the held codec in which to fetch the next chunk, `TEXT` or, if the engine can return, `TEXT_CHUNK`."""

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Return whether to continue the running transfer of the next chunk, with `rest` bytes still to come."""
