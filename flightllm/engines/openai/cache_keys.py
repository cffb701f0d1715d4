"""Ask an endpoint to cache the starts of prompts: its keys of a request, and the marks in the messages.

Source: OpenAI's guide to prompt caching and the types of its Python package, and Mistral's guide, autumn 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

from flightllm.engines.cache_rules import CacheRules

KEY: Final = "prompt_cache_key"
OPTIONS: Final = "prompt_cache_options"
MARK: Final = "prompt_cache_breakpoint"
CONTROL: Final = "cache_control"
"""Anthropic's name for a mark."""
_EXPLICIT: Final[Mapping[str, str]] = {"mode": "explicit"}
_TEXTS_ONLY = re.compile(
    r"content\b.{0,80}\b(?:str(?:ing)?|text)\b|\bstr(?:ing)?\b.{0,80}\bcontent\b|\barray\b|\blist\b|\bsequence\b",
    re.IGNORECASE | re.DOTALL,
)
"""Rejections of a message in parts, by an endpoint that takes only texts."""


class CacheKeys:
    """The keys for caching that one endpoint accepts. Only the engine's event loop changes it."""

    def __init__(self, rules: CacheRules | None, further: Mapping[str, Any]) -> None:
        """`further` are the keys that the configuration sends with each request; they count."""
        self.refused = {name for name in (KEY, OPTIONS) if name in further}
        """The keys that the endpoint rejects, or that the configuration sets."""
        self._proven: set[str] = set()
        """The keys that the endpoint has accepted."""
        self._rules = rules

    @property
    def implicit(self) -> bool:
        """Return whether the endpoint itself marks the end of each prompt."""
        rules = self._rules
        return rules is not None and rules.breakpoints and rules.implicit and OPTIONS in self.refused

    @property
    def marks(self) -> bool:
        """Return whether messages can have marks."""
        return MARK not in self.refused

    def body(self, tenant: str, start: str) -> dict[str, Any]:
        """Return the keys for a prompt that begins with `start`, which names the prompts that it can share with.

        Where only marked starts are kept, the endpoint is told not to keep the rest: it would charge for storing each
        prompt. Tenants never share a key.
        """
        rules = self._rules
        if rules is None:
            return {}
        body: dict[str, Any] = {}
        if (rules.key or rules.routed) and KEY not in self.refused:
            body[KEY] = _key(tenant, start)
        if rules.breakpoints and rules.implicit and OPTIONS not in self.refused:
            body[OPTIONS] = dict(_EXPLICIT)
        return body

    def learn(self, text: str, sent: Mapping[str, Any], *, marked: bool) -> bool:
        """Learn from the text of a rejection; return whether it is about a key that was sent, or about a mark."""
        found = [name for name in (KEY, OPTIONS) if name in sent and name in text]
        if marked and (MARK in text or CONTROL in text or (not found and _TEXTS_ONLY.search(text))):
            found.append(MARK)
        self.refused.update(found)
        return bool(found)

    def unproven(self, sent: Mapping[str, Any], *, marked: bool) -> set[str]:
        """Return the keys of a request that the endpoint has not accepted before."""
        return ({KEY, OPTIONS}.intersection(sent) | ({MARK} if marked else set())) - self._proven

    def accepted(self, sent: Mapping[str, Any], *, marked: bool) -> None:
        """Note that the endpoint accepts the keys of a request."""
        self._proven |= self.unproven(sent, marked=marked)


def marked_messages(said: Sequence[Mapping[str, str]], marks: Sequence[int]) -> list[dict[str, Any]]:
    """Return messages in whose contents the ends of starts are marked.

    `marks` count characters back from the end of the last message. An end at the begin of the last message is marked at
    the end of the message before it. The parts of a content together are the same text.
    """
    found: list[dict[str, Any]] = [dict(one) for one in said]
    text = str(found[-1]["content"])
    inside = [place for mark in marks if 0 < (place := len(text) - mark) < len(text)]
    if any(mark >= len(text) for mark in marks) and len(found) > 1:
        found[-2]["content"] = [_part(str(found[-2]["content"]), marked=True)]
    if inside:
        edges = [0, *inside, len(text)]
        parts = [text[begin:end] for begin, end in pairwise(edges)]
        found[-1]["content"] = [_part(part, marked=place < len(inside)) for place, part in enumerate(parts)]
    return found


def _part(text: str, *, marked: bool) -> dict[str, Any]:
    mark = {MARK: dict(_EXPLICIT)} if marked else {}
    return {"type": "text", "text": text, **mark}


def _key(tenant: str, start: str) -> str:
    digest = blake2b(f"{tenant}\0{start}".encode("utf-8", "surrogatepass"), digest_size=12)
    return f"flightllm-{digest.hexdigest()}"
