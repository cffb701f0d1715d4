"""Choose whether prompts begin with the instruction or with the fields, by the bill of each layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from math import factorial
from statistics import fmean
from typing import Final, Protocol

from flightllm.engines.extras import extras_of
from flightllm.functions.call import AICall
from flightllm.llm.cost import Prices
from flightllm.llm.engine import Engine, PrefixCache, Request
from flightllm.llm.prompt_formats import PromptFormat
from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.bill import CacheCharges, CallPrompt, bill
from flightllm.prompt_order.uniform import score_columns

_LEAST_SAVING: Final = 0.01
"""The part of the bill that another layout must save, because it can change answers."""
_VALUE: Final = "x"
_MOST_COLUMNS: Final = 4
_MOST_TRIED: Final = 200_000
"""Tuples that are sorted to try all orders of their fields: about 0.2 seconds."""
_FLOORS: Final = (0.88, 1.0, 1.12)
"""Parts of the floor, because the tokens of a prompt are estimates."""
_EXACT_FLOORS: Final = (0.995, 1.0, 1.005)
"""The same where a public tokenizer counts: a word that two parts share can be one token less."""
_NO_CACHE: Final = CacheCharges(1 << 40)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a pass."""

    fields_first: bool = False
    columns: tuple[int, ...] | None = None
    """The columns of a tuple in prompt order; None for the order of the method."""
    why: str = ""
    """The reason for the layout, if the price chose it."""


class ChooseLayout(Protocol):
    """Chooses the layout of a pass; see `LayoutChooser.choose`."""

    def __call__(self, encoded: Encoded, columns: Sequence[tuple[int, ...]], *, orders: bool) -> Layout:
        """Return the layout for tuples and the columns of each call."""


@dataclass(frozen=True, slots=True)
class LayoutChooser:
    """Choose the layout of the prompts of a pass."""

    engine: Engine
    calls: Sequence[AICall]
    prompt_format: PromptFormat
    prices: Prices | None = None
    turns: Sequence[int] = ()
    """For each call, the number of its turn: calls of a later turn are asked about some of the rows, once the earlier
    answers are there. Empty if all calls are asked together."""
    packs: bool = False
    """Whether several rows share a request by the user's number: such a request needs the instruction first."""

    def choose(self, encoded: Encoded, columns: Sequence[tuple[int, ...]], *, orders: bool = False) -> Layout:
        """Return the cheapest layout, by the rules of the provider's cache; `columns` are those of each call, in order.

        With `orders`, another order of the fields can be chosen too. The instruction comes first, and the fields keep
        their order, where that costs no more, and where the provider has no cache.
        """
        cache = self.engine.prefix_cache
        if cache is None or not cache.hosted:
            return Layout(why="chosen because no prefix cache of a provider makes the other layout cheaper")
        if any(map(_is_bound, self.calls)):
            return Layout(why="chosen because examples, a proxy or a learned filter belong to this layout")
        charges = self._charges(cache)
        # without a fee, a start that only some later prompts read saves something, and costs nothing
        turns = self.turns if any(one.write > 1.0 for one in charges) else ()
        prompts = {first: self._prompts(columns, turns, fields_first=first) for first in (False, True)}
        none = bill(encoded, prompts[False], _NO_CACHE)
        if not none:
            return Layout()

        def prices(own: Sequence[CallPrompt]) -> list[float]:
            return [bill(encoded, own, one) / none for one in charges]

        first = prices(prompts[False])
        found, least = Layout(), fmean(first)
        bills = {False: least, True: fmean(prices(prompts[True]))}
        for tried in (None, *(_orders(encoded) if orders else ())):
            for fields_first, own in prompts.items():
                if fields_first and self.packs:
                    continue
                price = prices(own if tried is None else [_reordered(prompt, tried) for prompt in own])
                bills[fields_first] = min(fmean(price), bills[fields_first])
                never_dearer = all(new <= old for new, old in zip(price, first, strict=True))
                if never_dearer and fmean(price) < least - _LEAST_SAVING:
                    found, least = Layout(fields_first, tried), fmean(price)
        if self.packs:
            return replace(found, why="chosen because several rows share a request")
        other = bills[not found.fields_first]
        why = f"chosen by price: {least:.2f} of the input's price without a cache; with the other layout, {other:.2f}"
        return replace(found, why=why)

    def _charges(self, cache: PrefixCache) -> list[CacheCharges]:
        """Return the provider's charges, and those at a lower and a higher floor: the tokens are estimates.

        A start that just passes the floor in one layout can miss it in the other one, which is shorter.
        """
        if not cache.earns:
            return [_NO_CACHE]
        floor = cache.floor_tokens / max(1e-9, self._rate())
        read, write = cache.read, cache.write
        if self.prices is not None and self.prices.input:
            read = self.prices.cached / self.prices.input
            write = 1.0 if self.prices.written is None else self.prices.written / self.prices.input
        return [
            CacheCharges(
                round(part * floor),
                cache.block_tokens,
                read,
                write,
                cache.breakpoints or cache.units,
                cache.pays_from,
                2 if cache.units else 1,
            )
            for part in (_EXACT_FLOORS if extras_of(self.engine).counts_exactly else _FLOORS)
        ]

    def _prompts(
        self, columns: Sequence[tuple[int, ...]], turns: Sequence[int], *, fields_first: bool
    ) -> list[CallPrompt]:
        heads: dict[tuple[str, int], int] = {}
        found = []
        for call, own, turn in zip(self.calls, columns, turns or [0] * len(self.calls), strict=True):
            if not call.fields:
                continue
            request = self._probe(call, fields_first=fields_first)
            parts = extras_of(self.engine).parts_of(request)
            end = parts.ends[-1]
            begin = end - (request.ends[1] - request.ends[0])
            head = heads.setdefault((parts.text[:begin], turn), len(heads))
            begins, ends = (self.engine.count_tokens(text) for text in (parts.text[:begin], parts.text[end:]))
            found.append(CallPrompt(own, head, begins + parts.before, ends + parts.after))
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
        if not self.calls[0].fields:
            return 1.0
        return extras_of(self.engine).tokens_per_estimate(self._probe(self.calls[0], fields_first=False))


def _orders(encoded: Encoded) -> Iterator[tuple[int, ...]]:
    """Yield the orders of fields to try: all of them for few fields and tuples, otherwise that by the fields' score."""
    columns = encoded.codes.shape[1]
    if columns <= _MOST_COLUMNS and len(encoded.codes) * factorial(columns) <= _MOST_TRIED:
        yield from islice(permutations(range(columns)), 1, None)
    elif columns > 1:
        yield tuple(score_columns(encoded).tolist())


def _is_bound(call: AICall) -> bool:
    """Return whether answers to other prompts of the call, which have the usual layout, decide about its answers."""
    examples = call.labelled is not None or bool(call.uncalibrated) or call.by_rows
    return examples or call.cascades or bool(call.learned_by)


def _reordered(prompt: CallPrompt, columns: Sequence[int]) -> CallPrompt:
    return replace(prompt, columns=tuple(one for one in columns if one in prompt.columns))
