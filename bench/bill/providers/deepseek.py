"""DeepSeek: a cache on disk, whose units are found again only as a whole.

Source: https://api-docs.deepseek.com/guides/kv_cache (read in autumn 2026). Each request leaves a unit that ends with
the user's input. If two requests have a common start, this start becomes a unit too: the third request with it can
read it. A request reads the longest unit that its prompt contains from its beginning. Long inputs also leave units at
fixed intervals, but the page does not say at which. This server has no units of that kind. Storage comes in units of
64 tokens: https://api-docs.deepseek.com/news/news0802. A unit stays for hours to days; here it stays for an hour.
"""

from __future__ import annotations

from bench.bill.caches import Prefixes, Split, steps
from bench.bill.prompt import Prompt, Template
from bench.bill.provider import Provider

_STEP, _SECONDS = 64, 3_600.0


class Units:
    """The cache of one model."""

    def __init__(self) -> None:
        self._units, self._seen = Prefixes(), Prefixes()

    def arrive(self, prompt: Prompt, now: float) -> Split:
        """Return the longest unit from which the prompt begins."""
        found = 0
        for number, prefix in enumerate(steps(prompt, _STEP), 1):
            if number * _STEP < len(prompt.tokens) and self._units.find("", prefix, now):
                found = number * _STEP
        return Split(found)

    def begin(self, prompt: Prompt, now: float) -> None:
        """Keep the whole prompt, and the longest start that it shares with an earlier one."""
        prefixes = steps(prompt, _STEP)
        common = 0
        for prefix in prefixes:
            if not self._seen.find("", prefix, now):
                break
            common += 1
        for place in {common - 1, len(prefixes) - 1} - {-1}:
            self._units.keep("", prefixes[place], now, _SECONDS)
        for prefix in prefixes:
            self._seen.keep("", prefix, now, _SECONDS)


PROVIDER = Provider(
    "deepseek",
    "deepseek-v4-flash",
    Units,
    Template(message=1, answer=1),
    names=("hit_and_miss",),
    logprobs=True,  # https://api-docs.deepseek.com/api/create-chat-completion
)
