"""OpenAI's models from GPT-5.6 on: writes cost 1.25 times the input, and a prefix is found only at a breakpoint.

Source: https://developers.openai.com/api/docs/guides/prompt-caching and the field documentation of
`prompt_cache_options` and `prompt_cache_breakpoint` (read in autumn 2026). The request's newest message has an implicit
breakpoint at its end, unless the mode is `explicit`. Content blocks can have explicit breakpoints. A request writes at
most four: the implicit one and the latest three explicit ones, or the latest four explicit ones. It reads the longest
prefix that an earlier request wrote and that ends exactly at one of its breakpoints. The latest 80 count. A prefix has
1,024 tokens or more, without steps. It lives for 30 minutes. openai/codex #35300 shows the consequence: a fixed start
before a changing last message is never read, and each request writes it again.
"""

from __future__ import annotations

from bench.bill.caches import Prefixes, Split
from bench.bill.prompt import End, Prompt, Template
from bench.bill.provider import Provider

_FLOOR, _SECONDS, _MOST_WRITES, _MOST_READS = 1_024, 1_800.0, 4, 80


class Breakpoints:
    """The cache of one model."""

    def __init__(self) -> None:
        self._prefixes = Prefixes()

    def arrive(self, prompt: Prompt, now: float) -> Split:
        """Return the longest prefix that ends at a breakpoint, and the tokens up to the last new breakpoint."""
        read = 0
        for end in _breakpoints(prompt)[-_MOST_READS:]:
            if self._prefixes.find(prompt.key, hash(prompt.tokens[: end.tokens]), now):
                read = max(read, end.tokens)
        written = max((end.tokens for end in _writes(prompt)), default=0)
        return Split(read, max(0, written - read))

    def begin(self, prompt: Prompt, now: float) -> None:
        """Keep the prefixes at the breakpoints that the request writes."""
        for end in _writes(prompt):
            self._prefixes.keep(prompt.key, hash(prompt.tokens[: end.tokens]), now, _SECONDS)


def _breakpoints(prompt: Prompt) -> list[End]:
    """Return the ends of blocks that are breakpoints and reach the floor, in their order."""
    last = next((end for end in reversed(prompt.ends) if end.ends_message), None)
    return [
        end for end in prompt.ends if end.tokens >= _FLOOR and (end.marked or (end is last and not prompt.explicit))
    ]


def _writes(prompt: Prompt) -> list[End]:
    """Return the breakpoints that the request writes: the latest ones, the implicit one among them."""
    return _breakpoints(prompt)[-_MOST_WRITES:]


PROVIDER = Provider(
    "openai",
    "gpt-5.6-luna",
    Breakpoints,
    Template(message=4, answer=3),
    schema_counts=True,
    strict=True,
    logprobs=True,  # with `reasoning_effort` `none`, which the product sends
    tells_writes=True,
    breakpoints=_MOST_WRITES,
    implicit=True,
    floor=_FLOOR,
)
