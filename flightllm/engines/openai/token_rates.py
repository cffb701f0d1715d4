"""Learn how many tokens an endpoint counts for each estimated token of a prompt."""

from __future__ import annotations

import threading
from typing import Final

from flightllm.common.newest import Newest

_MOST_SITES: Final = 200
_MOST_TEXTS: Final = 4_096
_ENOUGH: Final = 2
"""The answers of one call site, or of all together, that show the rate."""
_MEMORY: Final = 0.99
"""Factor on the weight of earlier answers at each answer."""


class _Sums:
    __slots__ = ("answers", "estimated", "reported")

    def __init__(self) -> None:
        self.answers, self.estimated, self.reported = 0, 0.0, 0.0

    def add(self, estimated: int, reported: int) -> None:
        self.answers += 1
        self.estimated = self.estimated * _MEMORY + estimated
        self.reported = self.reported * _MEMORY + reported


class TokenRates:
    """The rates of one endpoint, by call site. Thread-safe.

    The rate depends on the language of the texts and on the tokens that the endpoint adds to each prompt.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all = _Sums()
        self._sites = Newest[str, _Sums](_MOST_SITES)
        self._texts = Newest[int, int](_MOST_TEXTS)
        """The reported tokens, by the hash of the text."""

    def observe(self, site: str, text: str, estimated: int, reported: int) -> None:
        """Learn from a prompt of a call site, sent as `text`."""
        with self._lock:
            self._texts[hash(text)] = reported
            sums = self._sites.use(site)
            if sums is None:
                sums = self._sites[site] = _Sums()
            for one in (sums, self._all):
                one.add(estimated, reported)

    def known(self, text: str) -> int | None:
        """Return the tokens that the endpoint reported for a text; None for one that it did not get lately."""
        with self._lock:
            return self._texts.get(hash(text))

    def rate(self, site: str) -> float:
        """Return the reported tokens per estimated token; 1 while too few answers are known."""
        with self._lock:
            for one in (self._sites.get(site), self._all):
                if one is not None and one.answers >= _ENOUGH and one.estimated:
                    return one.reported / one.estimated
        return 1.0
