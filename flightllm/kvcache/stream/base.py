"""What every policy of streaming offers, and what it decides by: what is held, what it costs, what time is left."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Protocol

from flightllm.kvcache.chunks import Chunk

TEXT: Final = "text"
"""The choice to compute all that is left of a prompt instead of fetching it."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The codecs to choose from, best quality first, each smaller than those before, and the one for when in doubt."""

    codecs: tuple[str, ...]
    default: str

    def __post_init__(self) -> None:
        """Check that the names make sense together."""
        if len(set(self.codecs)) < len(self.codecs) or TEXT in self.codecs:
            raise ValueError(f"codecs: expected different names, none of them {TEXT!r}; got {', '.join(self.codecs)}")
        if self.default not in self.codecs:
            raise ValueError(f"default: expected one of {', '.join(self.codecs)}; got {self.default!r}")

    def as_good(self, codecs: Sequence[str]) -> list[str]:
        """Return those of some codecs whose quality is the default's, or better."""
        return [codec for codec in codecs if codec in self.codecs[: self.codecs.index(self.default) + 1]]

    def nearest(self, codec: str, sizes: Mapping[str, int]) -> str | None:
        """Return the codec to take where one is wanted: itself, else the next smaller that is held, else a better."""
        place = self.codecs.index(codec)
        near = (*self.codecs[place:], *reversed(self.codecs[:place]))
        return next((name for name in near if name in sizes), None)


@dataclass(frozen=True, slots=True)
class HeldChunk:
    """A chunk, and the bytes of what a store holds of it by codec; nothing held is an empty mapping."""

    chunk: Chunk
    sizes: Mapping[str, int]

    def without(self, codec: str) -> "HeldChunk":
        """Return the chunk with one codec less to choose from."""
        return HeldChunk(self.chunk, {name: size for name, size in self.sizes.items() if name != codec})


@dataclass(frozen=True, slots=True)
class Costs:
    """What an engine needs to have a chunk, in seconds."""

    prefill: Callable[[int, int], float]
    """To compute a prompt's tokens from one position to another, once those before are there."""
    decode: Callable[[str, int], float] = field(default=lambda _codec, _tokens: 0.0)
    """To decode and load so many tokens of a codec."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when the next chunk is to be chosen. Times are in seconds, throughput is in bytes a second."""

    left: Sequence[HeldChunk]
    """The chunks that are not there yet, in order, the next one first; at least one."""
    costs: Costs
    throughput: float | None = None
    """Of the whole link, as last measured; None where nothing is known of it."""
    transfers: int = 1
    """Those that share the link, this one included."""
    round_trip: float = 0.0
    elapsed: float = 0.0
    slo: float | None = None
    """The time within which all is to be there, counted as `elapsed` is; None for as soon as can be."""
    busy: float = 0.0
    """Until what has arrived is decoded."""
    have: int = 0
    """The tokens before this one are there, even where the next chunk begins with some of them."""

    @property
    def start(self) -> int:
        """Return where what is left begins."""
        return max(self.have, self.left[0].chunk.start)

    @property
    def rate(self) -> float | None:
        """Return the bytes a second that this transfer may expect."""
        return None if self.throughput is None else self.throughput / max(1, self.transfers)

    def text_seconds(self) -> float:
        """Return the seconds until all that is left is computed."""
        return self.busy + self.costs.prefill(self.start, self.left[-1].chunk.stop)

    def fetch_seconds(self, codec: str, ladder: Ladder, begun: tuple[str, int] | None = None) -> float:
        """Return the seconds until all that is left is fetched and decoded, or computed from where nothing is held.

        The next chunk travels while one is decoded, and no further ones. `begun` is the codec of the next chunk where
        it is on its way already, and the bytes of it that are still to come. An unknown rate counts as without limit.
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
        """Tell whether what takes so long from now is done in time; without an SLO nothing is late."""
        return self.slo is None or self.elapsed + seconds <= self.slo

    def _travel(self, size: int) -> float:
        rate = self.rate
        if rate is None:
            return 0.0
        return size / rate if rate else inf


class Policy(Protocol):
    """Chooses what is fetched of each chunk. Without state; safe to call from several threads at once."""

    def choose(self, now: Situation) -> str:
        """Return the codec to fetch the next chunk of, one that is held, or `TEXT` to compute all that is left."""

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Tell whether to go on with a transfer under way of the next chunk, of which `rest` bytes are to come."""
