"""The least bill that any layout of some requests can have, by search.

The search tries both layouts, the orders of the fields, the orders of the requests, and which common starts are marked.
It sends one request after the other. That is the best for every cache here: a request finds all that those before it
left. A warm-up request in front can only add its own tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, combinations, permutations
from typing import Final

from bench.bill.pieces import LAYOUTS, Pieces, orders, shared_starts, together
from bench.bill.prices import Prices, Usage, bill
from bench.bill.prompt import Prompt
from bench.bill.provider import Provider
from bench.bill.tokens import tokenizer

_MOST_STARTS: Final = 6
"""Up to so many common starts, all sets of them are tried as marks."""
MOST_REQUESTS: Final = 5
"""Up to so many requests, all their orders are tried."""
_FEW_CHOICES: Final = 12


def least(requests: Sequence[Pieces], output: int, provider: Provider, at: Prices) -> float:
    """Return the least bill of requests whose answers have `output` tokens together.

    More than `MOST_REQUESTS` requests are sent in one order, with all common starts marked. The result is then the bill
    of a good layout, and an upper bound on the least bill.
    """
    _, tokenize = tokenizer(provider.name)
    tried: list[tuple[float, list[Prompt]]] = []
    for layout in LAYOUTS:
        for names in orders(requests):
            alike = sorted(requests, key=partial(_texts, layout, names))
            for marked in _marks(alike, layout, names, provider):
                prompts = [together(one, layout, names, marked, provider, tokenize) for one in alike]
                tried.append((_bill(prompts, output, provider, at), prompts))
    tried.sort(key=lambda one: one[0])
    if len(requests) > MOST_REQUESTS:
        return tried[0][0]
    return min(
        _bill(order, output, provider, at) for _, prompts in tried[:_FEW_CHOICES] for order in permutations(prompts)
    )


def _texts(layout: str, names: Sequence[str], one: Pieces) -> tuple[str, ...]:
    return one.starts(layout, names)[-1]


def _marks(
    requests: Sequence[Pieces], layout: str, names: Sequence[str], provider: Provider
) -> Iterator[frozenset[tuple[str, ...]]]:
    """Yield the sets of starts to mark: every set of the common ones if they are few, else all and none."""
    yield frozenset()
    if not provider.breakpoints:
        return
    starts = shared_starts(requests, layout, names)
    few: Iterable[tuple[tuple[str, ...], ...]] = [tuple(starts)]
    if len(starts) <= _MOST_STARTS and len(requests) <= MOST_REQUESTS:
        few = chain.from_iterable(combinations(starts, size) for size in range(1, len(starts) + 1))
    yield from map(frozenset, few)


def _bill(prompts: Iterable[Prompt], output: int, provider: Provider, at: Prices) -> float:
    cache, usages = provider.cache(), [Usage(0, 0, 0, output)]
    for prompt in prompts:
        split = cache.arrive(prompt, 0.0)
        cache.begin(prompt, 0.0)
        usages.append(Usage(len(prompt.tokens) - split.read - split.written, split.read, split.written, 0, split.long))
    return bill(usages, at)
