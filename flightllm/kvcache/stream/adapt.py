"""`adaptive`: the best quality that is there in time, as the link is now (CacheGen, section 5.3)."""

from dataclasses import dataclass
from typing import Final

from flightllm.kvcache.stream.base import TEXT, Ladder, Situation

_GAIN: Final = 1.1
"""A transfer goes on unless something else is sooner by more than this factor: estimates are no better."""
_HOPE: Final = 8.0
"""The same where nothing is in time any more: links recover, and only by going on, or by the smallest that is held, can
the SLO still be met. On 200 random traces fewer prompts were late with 8 than with 2 or 4, and no more than with more;
it bounds what a dead link costs."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """With an SLO: text, which loses nothing, where it fits; else the best codec that does; else the soonest codec.

    Without one: what ends soonest of the default codec, better ones (on a fast link these are sooner, being less work
    to decode) and text, as for short prompts and on slow links. As published: `Adaptive(ladder, fallback=False,
    headroom=1.0)`.
    """

    ladder: Ladder
    fallback: bool = True
    """Whether a transfer under way is given up where the link has become too slow for it."""
    headroom: float = 2.0
    """A codec fits where even so much slower a link would bring it in time. What is saved is not lost: it may do for
    later chunks as text. On random traces fewer prompts are late with 2 than with 1, of the same quality and sooner."""

    def choose(self, now: Situation) -> str:
        """Return what to fetch of the next chunk; see `Policy.choose`."""
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
        """Tell whether to go on with a transfer; see `Policy.keeps`.

        It is given up where all would come too late with it, even were every later chunk the smallest, and sooner
        without it. Without an SLO too late is later than text.
        """
        if not self.fallback or now.rate is None:
            return True
        later = self.ladder.default if now.slo is None else self.ladder.codecs[-1]
        staying = now.fetch_seconds(later, self.ladder, (codec, rest))
        if now.slo is None:
            return staying <= _GAIN * now.text_seconds()
        instead = min(now.text_seconds(), now.fetch_seconds(later, self.ladder))
        return now.fits(staying) or staying <= (_GAIN if now.fits(instead) else _HOPE) * instead
