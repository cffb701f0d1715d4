"""Choose which common starts the prompts of a batch store at a provider, and which prompts go ahead to store them.

The prompts of a batch run at the same time, so none of them reads what another one stores: each would pay for storing
the start. So one prompt of each start goes ahead in a batch of its own, and the others then read what it stored.
Measured by others at Anthropic: no reads within ten batches, 100 % after such a batch; a request outside of batches
stores nothing for them (github.com/Bike4Mind/bike4mind/pull/2741, github.com/anthropics/skills/pull/1601).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from flightllm.llm.batch_endpoint import Draft, Lead

MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
"""The keys of Anthropic and of OpenAI that mark the end of a start in a block of a message."""
_SPOKEN: Final = ("system", "messages")
_OF_ANSWERS: Final = frozenset({"max_tokens", "max_completion_tokens", "temperature", "top_p", "seed"})
"""The keys that change no start."""


@dataclass(frozen=True, slots=True)
class StartPrices:
    """The prices of a token of a start that is read, and of one that is stored, relative to another token."""

    read: float
    write: float

    def saves(self, prompts: int, length: int, shorter: int = 0) -> bool:
        """Return whether so many prompts pay less with a start of this length than with a `shorter` one.

        One of the prompts stores the start, and the others read it. Length 0 stands for no start.
        """
        with_start = length * (self.write + self.read * (prompts - 1))
        return with_start < prompts * (self.read * shorter + length - shorter)


def marked_blocks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a body that mark the end of a start."""
    for block in _blocks(body):
        if any(mark in block for mark in MARKS):
            yield block


def lead(drafts: Mapping[int, Draft], prices: StartPrices) -> Lead | None:
    """Return which of a job's prompts go ahead, and the others whose marks change; None if no prompt has a mark.

    A start keeps its mark where this costs less than a shorter start, or no start at all.

    Example: five prompts begin with `I`, three of them with `I a`. With a price of 2 for storing and .1 for reading, a
    long `a` keeps its mark, and one prompt of the three goes ahead. The other two prompts read `I`, which this one has
    stored too.
    """
    starts = {number: _starts(draft.body) for number, draft in drafts.items() if _has_marks(draft)}
    if not starts:
        return None
    sizes = Counter(key for found in starts.values() for key, _ in found)
    kept = {number: _kept(found, sizes, prices) for number, found in starts.items()}
    stored, ahead = set[bytes](), list[int]()
    for number in sorted(kept, key=lambda one: (-kept[one], one)):
        if kept[number] and starts[number][kept[number] - 1][0] not in stored:
            ahead.append(number)
            stored.update(key for key, _ in starts[number][: kept[number]])
    changed = {
        number: with_marks(drafts[number], count) for number, count in kept.items() if count < len(starts[number])
    }
    return Lead(tuple(sorted(ahead)), changed)


def with_marks(draft: Draft, count: int) -> Draft:
    """Return a draft that marks only its first `count` starts; its note then names only these, see `Draft`."""
    body = json.loads(json.dumps(draft.body))
    for place, block in enumerate(marked_blocks(body)):
        if place >= count:
            for mark in MARKS:
                block.pop(mark, None)
    return Draft(body, " ".join(draft.note.split()[: 1 + count]))


def _kept(starts: Sequence[tuple[bytes, int]], sizes: Mapping[bytes, int], prices: StartPrices) -> int:
    """Return how many of a prompt's starts keep their marks; the shortest start is first."""
    for count in range(len(starts), 0, -1):
        key, length = starts[count - 1]
        shorter = next((size for one, size in reversed(starts[: count - 1]) if prices.saves(sizes[one], size)), 0)
        if prices.saves(sizes[key], length, shorter):
            return count
    return 0


def _has_marks(draft: Draft) -> bool:
    return next(marked_blocks(draft.body), None) is not None


def _starts(body: Mapping[str, Any]) -> list[tuple[bytes, int]]:
    """Return a key and the length in characters of each start that a body marks, the shortest first."""
    rest = {name: value for name, value in body.items() if name not in _OF_ANSWERS and name not in _SPOKEN}
    rest.pop("prompt_cache_key", None)
    read = blake2b(json.dumps(rest, sort_keys=True).encode(), digest_size=16)
    length, found = 0, list[tuple[bytes, int]]()
    for block in _blocks(body):
        text = str(block.get("text", ""))
        read.update(text.encode("utf-8", "surrogatepass") + b"\0")
        length += len(text)
        if any(mark in block for mark in MARKS):
            found.append((read.copy().digest(), length))
    return found


def _blocks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of a body in their order; a plain text is a block that is not part of the body."""
    contents = [body.get("system"), *(one.get("content") for one in body.get("messages", []))]
    for content in contents:
        if isinstance(content, str):
            yield {"text": content}
        elif isinstance(content, list):
            yield from (block for block in content if isinstance(block, dict))
