"""`adaptive`: the best quality that arrives in time over the current link (CacheGen, section 5.3)."""

from dataclasses import dataclass
from typing import Final

from flightllm.kvcache.stream.base import TEXT, Ladder, Situation

_GAIN: Final = 1.1
"""A transfer continues unless another choice is faster by more than this factor; estimates have this error."""
_HOPE: Final = 8.0
"""The same factor once no choice meets the SLO.

Links recover, and then only a continued transfer, or the smallest held codec, can still meet the SLO. On 200 random
traces, 8 gave fewer late prompts than 2 or 4, and as few as larger factors. The factor bounds the cost of a dead link.
"""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The adaptive policy of CacheGen, with two additions (`fallback` and `headroom`).

    With an SLO it chooses text (computing, which is exact) if that is in time. Else it chooses the best codec that is
    in time, or the fastest codec if no codec is. Without an SLO it chooses the fastest of the default codec, better
    codecs, and text. Better codecs are faster on a fast link, because they are less work to decode; text is faster for
    short prompts and on slow links. The published policy is `Adaptive(ladder, fallback=False, headroom=1.0)`.
    """

    ladder: Ladder
    fallback: bool = True
    """Whether a running transfer is cancelled if the link has become too slow for it."""
    headroom: float = 2.0
    """A codec counts as in time if it would be in time on a link slower by this factor.

    The spare time is not lost: later chunks can use it for text. On random traces fewer prompts are late with 2 than
    with 1, at the same quality, and they end sooner.
    """

    def choose(self, now: Situation) -> str:
        """Return the codec to fetch of the next chunk; see `Policy.choose`."""
        held = self.ladder.nearest(self.ladder.default, now.left[0].sizes)
        text = now.text_seconds()
        if held is None or (now.slo is not None and now.fits(text)):
            return TEXT
        if now.rate is None:
            return TEXT if text <= now.fetch_seconds(self.ladder.default, self.ladder) else held
        held_here = [codec for codec in self.ladder.codecs if codec in now.left[0].sizes]
        seconds = {codec: now.fetch_seconds(codec, self.ladder) for codec in held_here}
        if now.slo is None:
            best = min([held, *self.ladder.as_good(held_here)], key=lambda codec: seconds[codec])
            return best if seconds[best] < text else TEXT
        soonest = min(seconds, key=lambda codec: seconds[codec])
        best = next((codec for codec, needed in seconds.items() if now.fits(self.headroom * needed)), soonest)
        if now.fits(seconds[best]) or seconds[best] <= _HOPE * text:
            return best
        return TEXT

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Return whether to continue a transfer; see `Policy.keeps`.

        A transfer is cancelled if two conditions hold. First, the prompt would be late with this transfer, even if all
        later chunks took the smallest codec. Second, the prompt would be ready sooner without this transfer. Without an
        SLO, late means later than text.
        """
        if not self.fallback or now.rate is None:
            return True
        later = self.ladder.default if now.slo is None else self.ladder.codecs[-1]
        staying = now.fetch_seconds(later, self.ladder, (codec, rest))
        if now.slo is None:
            return staying <= _GAIN * now.text_seconds()
        instead = min(now.text_seconds(), now.fetch_seconds(later, self.ladder))
        return now.fits(staying) or staying <= (_GAIN if now.fits(instead) else _HOPE) * instead
