"""Anthropic's Messages API: breakpoints by `cache_control`.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read in autumn 2026). A request has at
most four breakpoints. At each one, the cache is searched for the longest prefix that an earlier request wrote. The
prefix ends at this block, or at one of the 20 blocks before it. It must have a model's least tokens, see `FLOORS`. A
write costs 1.25 times the input for 5 minutes, 2 times for 1 hour; after each read, the prefix lives as long again. A
prefix can be read once the first answer has begun. The OpenAI-compatible API of Anthropic caches nothing, and ignores
`response_format`: https://platform.claude.com/docs/en/api/openai-sdk.
"""

from __future__ import annotations

from bench.bill.caches import Prefixes, Split
from bench.bill.prompt import End, Prompt, Template
from bench.bill.provider import Provider

FLOORS = {
    "claude-opus-5": 512,
    "claude-sonnet-5": 1_024,
    "claude-opus-4-8": 1_024,
    "claude-sonnet-4-6": 1_024,
    "claude-sonnet-4-5": 1_024,
    "claude-opus-4-7": 2_048,
    "claude-opus-4-6": 4_096,
    "claude-opus-4-5": 4_096,
    "claude-haiku-4-5": 4_096,
}
"""The least tokens of a prefix by model."""
_SECONDS, _LONG_SECONDS, _LOOK_BACK, _MOST = 300.0, 3_600.0, 20, 4


class CacheControl:
    """The cache of one model, whose prefixes have at least `floor` tokens."""

    def __init__(self, floor: int) -> None:
        self._floor = floor
        self._prefixes = Prefixes()

    def arrive(self, prompt: Prompt, now: float) -> Split:
        """Return the longest known prefix near a breakpoint, and the tokens up to the last breakpoint."""
        marks = self._marks(prompt)
        if not marks:
            return Split()
        read = 0
        for place, end in enumerate(prompt.ends):
            if end in marks:
                for before in prompt.ends[max(0, place - _LOOK_BACK) : place + 1]:
                    if before.tokens > read and self._prefixes.find("", hash(prompt.tokens[: before.tokens]), now):
                        read = before.tokens
        written = max(0, marks[-1].tokens - read)
        # an entry of an hour must precede those of 5 minutes, so the long part is the first one
        long = max((end.tokens for end in marks if end.seconds == _LONG_SECONDS), default=0)
        return Split(read, written, min(written, max(0, long - read)))

    def begin(self, prompt: Prompt, now: float) -> None:
        """Keep the prefixes at the breakpoints."""
        for end in self._marks(prompt):
            self._prefixes.keep("", hash(prompt.tokens[: end.tokens]), now, end.seconds or _SECONDS)

    def _marks(self, prompt: Prompt) -> list[End]:
        return [end for end in prompt.ends if end.marked and end.tokens >= self._floor]


def check(prompt: Prompt) -> str:
    """Return why the API refuses a request with these marks; empty if it takes it."""
    marks = [end for end in prompt.ends if end.marked]
    if len(marks) > _MOST:
        return f"at most {_MOST} blocks can have cache_control, got {len(marks)}"
    seconds = [end.seconds or _SECONDS for end in marks]
    if seconds != sorted(seconds, reverse=True):
        return "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
    return ""


MODEL = "claude-sonnet-5"
PROVIDER = Provider(
    "anthropic",
    MODEL,
    lambda: CacheControl(FLOORS[MODEL]),
    Template(message=3, answer=3),
    check=check,
    breakpoints=_MOST,
    floor=FLOORS[MODEL],
)
