"""Make the requests of one pass. Each says what its prompt has in common with its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from secrets import token_hex
from typing import TypeAlias

from flightllm.llm.engine import Request, Reuse, call_site
from flightllm.operators.call_context import CallSite
from flightllm.operators.model_binding import ModelBinding
from flightllm.operators.prefix_overlap import PrefixOverlap

Prompt: TypeAlias = tuple[int, list[tuple[str, str]]]
"""A call by its number, and its named values in prompt order."""


class RequestMaker:
    """The requests of one pass, numbered in the order in which they are sent. One thread uses it."""

    def __init__(self, binding: ModelBinding, sites: Sequence[CallSite]) -> None:
        self._binding = binding
        self._sites = sites
        self._names = [call_site(site.ai.function, site.ai.instruction) for site in sites]
        self._query = token_hex(8)
        self._numbers = count()
        self._neighbours = PrefixOverlap()
        self._rendered: tuple[Prompt, str] | None = None
        """The prompt that was rendered last, and its text. Most often it is also the prompt of the next request."""

    def make(self, prompt: Prompt, following: Prompt | None, *, again: bool, repair: str | None = None) -> Request:
        """Return the request for the prompt that is sent next. `following` is the prompt after it, if that is known.

        `again` says that calls over the same values can follow later. A prompt that the budget held back can be made
        again. `repair` is a text that begins with the prompt's text, and that is sent in its place.
        """
        call, fields = prompt
        site, number = self._sites[call], next(self._numbers)
        text = self._text(prompt)
        recurs, ahead = self._neighbours.shared(text, None if following is None else self._text(following))
        if ahead is not None and again:
            ahead = max(ahead, site.fields_part(text))
        elif following is not None and self._names[following[0]] != self._names[call] and not site.fields_first:
            ahead = None  # further prompts of this call can come after those of the other call
        return Request(
            number,
            text if repair is None else repair,
            site.ai.parameters,
            site.ai.function,
            site.ai.instruction,
            tuple(fields),
            self._binding.tenant,
            self._binding.precedence.now,
            recurs=recurs,
            reuse=Reuse(self._names[call], self._query, number, ahead),
            max_tokens=site.ai.max_tokens(fields),
        )

    def _text(self, prompt: Prompt) -> str:
        call, fields = prompt
        if self._rendered is not None:
            (latest, its_fields), text = self._rendered
            if latest == call and its_fields is fields:
                return text
        text = self._sites[call].prompt(fields)
        self._rendered = (prompt, text)
        return text
