"""Choose whether prompts begin with the instruction or with the fields, by the bill of each layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from flightllm.engines.observed import ObservedEngine
from flightllm.engines.prompt_parts import PromptParts
from flightllm.functions.call import AICall
from flightllm.llm.engine import Engine, PrefixCache, Request
from flightllm.llm.prompt_formats import PromptFormat
from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.bill import CacheCharges, CallPrompt, bill

_LEAST_SAVING: Final = 0.01
"""The part of the bill that another layout must save, because it can change answers."""
_VALUE: Final = "x"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a pass."""

    fields_first: bool = False
    why: str = ""
    """The reason for the layout, if the price chose it."""


@dataclass(frozen=True, slots=True)
class LayoutChooser:
    """Choose the layout of the prompts of a pass."""

    engine: Engine
    calls: Sequence[AICall]
    prompt_format: PromptFormat

    def choose(self, encoded: Encoded, columns: Sequence[tuple[int, ...]]) -> Layout:
        """Return the cheaper layout, by the rules of the provider's cache; `columns` are those of each call, in order.

        The instruction comes first where both cost the same, and where the provider has no cache.
        """
        cache = self.engine.prefix_cache
        if cache is None or not cache.hosted or not cache.earns:
            return Layout(why="chosen because no prefix cache of a provider makes the other layout cheaper")
        if any(call.cascades or call.labelled is not None or call.uncalibrated or call.by_rows for call in self.calls):
            return Layout(why="chosen because examples or a proxy belong to this layout")
        none = bill(encoded, self._prompts(columns, fields_first=False), CacheCharges(1 << 40))
        if not none:
            return Layout()
        first, last = (self._bill(encoded, columns, cache, fields_first=place) for place in (False, True))
        fields_first = last < first - _LEAST_SAVING * none
        other, chosen = (first, last) if fields_first else (last, first)
        why = (
            f"chosen by price: {chosen / none:.2f} of the input's price without a cache; the other, {other / none:.2f}"
        )
        return Layout(fields_first, why)

    def _bill(
        self, encoded: Encoded, columns: Sequence[tuple[int, ...]], cache: PrefixCache, *, fields_first: bool
    ) -> float:
        rate = max(1e-9, self._rate())
        charges = CacheCharges(
            round(cache.floor_tokens / rate),
            cache.block_tokens,
            cache.read,
            cache.write,
            cache.breakpoints,
            cache.pays_from,
        )
        return bill(encoded, self._prompts(columns, fields_first=fields_first), charges)

    def _prompts(self, columns: Sequence[tuple[int, ...]], *, fields_first: bool) -> list[CallPrompt]:
        heads: dict[str, int] = {}
        found = []
        for call, own in zip(self.calls, columns, strict=True):
            if not call.fields:
                continue
            request = self._probe(call, fields_first=fields_first)
            parts = _parts(self.engine, request)
            end = parts.ends[-1]
            begin = end - (request.ends[1] - request.ends[0])
            head = heads.setdefault(parts.text[:begin], len(heads))
            tokens = (self.engine.count_tokens(text) for text in (parts.text[:begin], parts.text[end:]))
            found.append(CallPrompt(own, head, *tokens))
        return found

    def _probe(self, call: AICall, *, fields_first: bool) -> Request:
        """Return a request of a call with one short field."""
        fields = [(call.fields[0], _VALUE)]
        form = self.prompt_format
        text = call.prompt(fields, fields_first=fields_first, prompt_format=form)
        ends = form.ends(call.instruction, call.asked, fields, fields_first=fields_first)
        return Request(0, text, call.parameters, call.function, call.instruction, tuple(fields), ends=ends)

    def _rate(self) -> float:
        """Return how many tokens the endpoint counts for each estimated token, as far as is known."""
        rate: Callable[[Request], float] = getattr(_own(self.engine), "tokens_per_estimate", lambda _: 1.0)
        return rate(self._probe(self.calls[0], fields_first=False)) if self.calls[0].fields else 1.0


def _parts(engine: Engine, request: Request) -> PromptParts:
    """Return a prompt as the engine sends it; other engines send it as it is."""
    own: Callable[[Request], PromptParts] | None = getattr(_own(engine), "parts_of", None)
    return PromptParts(request.prompt, request.ends) if own is None else own(request)


def _own(engine: Engine) -> Engine:
    """Return the engine that a wrapper observes."""
    return engine.engine if isinstance(engine, ObservedEngine) else engine
