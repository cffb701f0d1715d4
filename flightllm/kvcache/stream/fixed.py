"""`fixed`: always the same codec, or always text; what adapting is compared with."""

from dataclasses import dataclass

from flightllm.kvcache.stream.base import TEXT, Ladder, Situation


@dataclass(frozen=True, slots=True)
class Fixed:
    """One codec for every chunk, the nearest where it is not held; or `TEXT`."""

    ladder: Ladder
    codec: str

    def choose(self, now: Situation) -> str:
        """Return what to fetch of the next chunk; see `Policy.choose`."""
        if self.codec == TEXT:
            return TEXT
        return self.ladder.nearest(self.codec, now.left[0].sizes) or TEXT

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:  # noqa: ARG002 - whatever the link does
        """Go on with every transfer."""
        return True
