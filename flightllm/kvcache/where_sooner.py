"""Decide whether a chunk is worth a second codec: one that is larger, and quicker to decode."""

from __future__ import annotations

import time
from typing import Final

from flightllm.kvcache.codec.base import Bitstream, Codec
from flightllm.kvcache.codec.finished import wait_until_decoded
from flightllm.kvcache.stream.meter import Meter

_GAIN: Final = 0.9
"""The second codec must need less than this share of the first one's time: it takes room in the store."""
_LARGER: Final = 1.25
"""The size of the second codec's bitstreams, as a share of the first one's; an upper bound of measured sizes."""
_NEW: Final = 0.5
"""The weight of the latest measurement of the link."""


class WhereSooner:
    """Chooses the chunks that are kept in the codec `second` too: those that it would load sooner than `first`.

    Each codec's first two chunks are decoded once more, to learn the speed of decoding. That also compiles the kernels,
    before a prompt waits for them. One thread uses it.

    Example: a chunk takes 2 MB in the first codec and 25 ms to decode, and 2.5 MB and 7 ms in the second. Over 1 Gbit/s
    both are transferred in less than 25 ms, so the first codec is limited by decoding, and the second one is sooner.
    Over 0.1 Gbit/s, they take 160 and 200 ms, and the chunk is kept in the first codec only.
    """

    def __init__(self, meter: Meter, first: str, second: str | None, device: str = "cpu") -> None:
        self._meter, self._first, self._second, self._device = meter, first, second, device
        self._rate: float | None = None
        """The bytes a second that the store took."""

    def order(self, codec: str) -> bool:
        """Return whether a codec comes later than others: after the chunk has been put in another one."""
        return codec == self._second

    def sent(self, size: int, seconds: float) -> None:
        """Learn how long a bitstream took to the store."""
        found = size / max(seconds, 1e-9)
        self._rate = found if self._rate is None else 1 / (1 / self._rate + _NEW * (1 / found - 1 / self._rate))

    def learn(self, codec: Codec, data: Bitstream, tokens: int) -> None:
        """Learn how long a codec decodes, if that is not known."""
        if self._second is None or self._meter.is_known(codec.name):
            return
        started = time.monotonic()
        for _ in codec.layers(data, self._device):
            pass
        wait_until_decoded(self._device)
        now = time.monotonic()
        self._meter.decoded(codec.name, tokens, now - started, now)

    def is_worth(self, codec: str, size: int, tokens: int) -> bool:
        """Return whether to keep a chunk in a codec; `size` is its size in the first codec, or 0 if unknown."""
        if codec != self._second or not (self._meter.is_known(codec) and self._meter.is_known(self._first)):
            return True
        now = time.monotonic()
        rate = self._meter.throughput(now) or self._rate
        if not size or not rate:
            return True
        first = max(size / rate, self._meter.decode_seconds(self._first, tokens, now))
        second = max(_LARGER * size / rate, self._meter.decode_seconds(codec, tokens, now))
        return second < _GAIN * first
