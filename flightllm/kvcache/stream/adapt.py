"""`adaptive`: the best quality that arrives in time over the current link (CacheGen, section 5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from flightllm.kvcache.stream.base import TEXT, TEXT_CHUNK, Ladder, Situation

_GAIN: Final = 1.1
"""A transfer continues unless another choice is faster by more than this factor; estimates have this error."""
_HOPE: Final = 8.0
"""The same factor once no choice meets the SLO.

Links recover, and then only a continued transfer, or the codec that ends soonest, can still meet the SLO. On 200 random
traces, 8 gave fewer late prompts than 2 or 4, and as few as larger factors. The factor bounds the cost of a dead link.
"""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The adaptive policy of CacheGen, with measured rates of decoding, and with `fallback` and `headroom`.

    With an SLO it chooses text (computing, which is exact) if that is in time. Else it chooses the best codec that is
    in time, or the soonest codec if no codec is. Without an SLO it chooses the soonest of the codecs that are as good
    as the default codec, and text. Which codec is soonest depends on the link and on decoding: on a fast link, a codec
    with more bytes and less work. Text is sooner for short prompts and on slow links.

    An engine that can return (`Situation.returns`) computes single chunks, and loads the ones after them: while it
    computes a chunk, the next one is transferred, even over a link that was too slow: that shows whether it recovered.
    """

    ladder: Ladder
    fallback: bool = True
    """Whether a running transfer is cancelled if the link has become too slow for it."""
    headroom: float = 3.0
    """A codec counts as in time if it would be in time on a link slower by this factor.

    The spare time is not lost: later chunks can use it for text. `bench.kv_adaptation` compares the policy with each
    fixed choice, over eleven shapes of traces and many rates of decoding. With 3, the policy is never late more than 2
    points above the best of them; with 2, it sometimes is.
    """

    def choose(self, now: Situation) -> str:
        """Return the choice for the next chunk; see `FetchPolicy.choose`."""
        held = [codec for codec in self.ladder.codecs if codec in now.left[0].sizes]
        if now.slo is not None and now.fits(now.text_seconds()):
            return TEXT
        if not held:
            return now.unheld
        if now.slo is None:
            near = self.ladder.nearest(self.ladder.default, now.left[0].sizes)
            as_good = list(dict.fromkeys([near or held[0], *self.ladder.as_good(held)]))
            soonest, seconds = self._soonest(now, as_good)
            text, text_seconds = self._text(now)
            return soonest if seconds < text_seconds or _is_free(now) else text
        for codec in held:
            if now.fits(now.fetch_seconds(codec, self.ladder, slower=self.headroom)):
                return codec
        soonest, seconds = self._soonest(now, held)
        if now.rate is None:
            return soonest  # only a transfer tells how fast the link is
        text, text_seconds = self._text(now)
        if now.fits(seconds):
            return soonest
        if now.fits(text_seconds):
            return text
        soonest, seconds = self._soonest(now, held, (None,))
        return soonest if seconds <= _hope(now) * text_seconds or _is_free(now) else text

    def keeps(self, now: Situation, codec: str, rest: int) -> bool:
        """Return whether to continue a transfer; see `FetchPolicy.keeps`.

        A transfer is cancelled if two conditions hold. First, the prompt would be late with this transfer, whatever
        later chunks take. Second, the prompt would be ready sooner without this transfer. Without an SLO, late means
        later than text. While the engine computes or decodes another chunk, no transfer is cancelled for text: waiting
        costs nothing.
        """
        if not self.fallback or now.rate is None:
            return True
        laters = [self.ladder.default] if now.slo is None else [*self.ladder.codecs, TEXT]
        staying = min(now.fetch_seconds(codec, self.ladder, (codec, rest), then=later) for later in laters)
        text = self._text(now)[1]
        if now.slo is None:
            return staying <= _GAIN * text or (now.returns and now.busy > 0)
        if now.fits(staying):
            return True
        others = [name for name in self.ladder.codecs if name in now.left[0].sizes and name != codec]
        sooner = self._soonest(now, others)[1]
        if now.returns and now.busy > 0 and text < sooner:
            return True
        instead = min(text, sooner)
        return staying <= (_GAIN if now.fits(instead) else _hope(now)) * instead

    def _soonest(
        self, now: Situation, codecs: Sequence[str], laters: Sequence[str | None] = (None, TEXT)
    ) -> tuple[str, float]:
        """Return the codec for the next chunk with which all is there soonest, and the seconds.

        The later chunks take the same codec (None), or are computed.
        """
        found, least = TEXT, inf
        for codec in codecs:
            for later in laters:
                seconds = now.fetch_seconds(codec, self.ladder, then=later)
                if seconds < least:
                    found, least = codec, seconds
        return found, least

    def _text(self, now: Situation) -> tuple[str, float]:
        """Return whether to compute all tokens or only the next chunk, and the seconds until all is there."""
        whole = now.text_seconds()
        if not now.returns or len(now.left) == 1 or now.rate is None:
            return TEXT, whole
        codecs = self.ladder.codecs if now.slo is not None else self.ladder.as_good(self.ladder.codecs)
        mixed = min(now.fetch_seconds(TEXT_CHUNK, self.ladder, then=codec) for codec in codecs)
        # The link can recover while a chunk is computed. So one chunk is enough, if it costs hardly more.
        second = now.left[1].chunk.start
        apart = now.busy + now.costs.prefill(now.start, second) + now.costs.prefill(second, now.left[-1].chunk.stop)
        chunk = now.slo is not None or min(mixed, apart) <= _GAIN * whole
        return TEXT_CHUNK if chunk else TEXT, min(mixed, whole)


def _hope(now: Situation) -> float:
    """Return the factor by which a transfer can be slower: once the limit has passed, nothing can be in time."""
    return _HOPE if now.fits(0.0) else _GAIN


def _is_free(now: Situation) -> bool:
    """Return whether a transfer costs nothing: the engine computes, and nobody else uses the link."""
    return now.returns and now.busy > 0 and now.transfers <= 1
