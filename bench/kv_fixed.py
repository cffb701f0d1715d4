"""`fixed`: always the same codec, or always text; the baseline for the adaptive policy."""

from dataclasses import dataclass

from flightllm.kvcache.stream.base import TEXT, Ladder, Situation


@dataclass(frozen=True, slots=True)
class Fixed:
    """One codec for every chunk, or the nearest held one; or always `TEXT`."""

    ladder: Ladder
    codec: str

    def choose(self, now: Situation) -> str:
        """Return the codec to fetch of the next chunk; see `Policy.choose`."""
        if self.codec == TEXT:
            return TEXT
        return self.ladder.nearest(self.codec, now.left[0].sizes) or now.unheld

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:  # noqa: ARG002 - the link does not matter
        """Continue every transfer."""
        return True
