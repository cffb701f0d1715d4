"""Compute what a layout of prompts costs at a provider that charges by the rules of its prefix cache.

The unit is the price of one token of input. The bill assumes that a start is stored before the next prompt with it
leaves, and that it is kept until the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Encoded
from flightllm.prompt_order.sequence import FlatDictionary, shared_fields, sort_rows


@dataclass(frozen=True, slots=True)
class CacheCharges:
    """The charges of a provider for its cache; see `CacheRules`."""

    floor: int
    step: int = 1
    read: float = 0.1
    write: float = 1.0
    marked: bool = False
    """Whether only marked starts are stored, at the ends of the parts of a prompt."""
    pays_from: int = 2
    """From how many prompts on with a common start the start is stored, if starts are marked."""
    bringers: int = 1
    """With `marked`: how many prompts with a start pay `write` for it before the next one reads it."""


@dataclass(frozen=True, slots=True)
class CallPrompt:
    """The prompts of one call in one layout."""

    columns: tuple[int, ...]
    """The columns of a tuple, in prompt order."""
    head: int
    """The number of the text before the fields; calls with equal numbers begin alike."""
    head_tokens: float
    tail_tokens: float
    """Tokens after the fields."""


def bill(encoded: Encoded, calls: Sequence[CallPrompt], charges: CacheCharges) -> float:
    """Return what the prompts of all calls cost, in prices of a token of input; answers do not count.

    Example: three tuples of the field values `a`, `a` and `b`, each of 2,000 tokens. One call has a head of 10 tokens.
    A provider that stores starts from 1,024 tokens on for 1.25 and reads them for .1 asks
    1.25 · 2,010 + .1 · 2,010 + 2,010 = 4,723.5 for them.
    """
    sequence, weights = _sequences(encoded, calls)
    total = float(weights.sum())
    if not len(sequence):
        return total
    places = sort_rows(sequence)
    inorder, weights = sequence[places], weights[places]
    reach = np.cumsum(weights, axis=1)
    depth = shared_fields(inorder)
    if charges.marked:
        return total + _marked(inorder, depth, reach, charges)
    before = np.where(depth > 0, np.take_along_axis(reach, np.maximum(depth - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    common = before + _partial(encoded, inorder, depth)
    common[0] = 0.0
    found = np.where(common < charges.floor, 0.0, common // charges.step * charges.step)
    stored = np.where(reach[:, -1] < charges.floor, 0.0, reach[:, -1] - found) * (charges.write - 1.0)
    return total - (1.0 - charges.read) * float(found.sum()) + float(stored.sum())


def _sequences(encoded: Encoded, calls: Sequence[CallPrompt]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return a row for each prompt: numbers of its parts, and the parts' tokens. The tail is the last part."""
    flat = FlatDictionary.of(Encoded(encoded.codes, encoded.weights, (1,) * len(encoded.weights), encoded.overlaps))
    width = max((len(call.columns) for call in calls), default=0)
    rows, tokens = [], []
    for number, call in enumerate(calls):
        fields = np.broadcast_to(np.array(call.columns, dtype=np.int16), (len(encoded.codes), len(call.columns)))
        own = flat.sequence(encoded.codes, fields) if call.columns else np.zeros((len(encoded.codes), 0), np.int64)
        own = own[own.any(axis=1)] if call.columns else own
        count = len(own)
        unique = np.arange(count) + number * len(encoded.codes) + len(flat.weights)  # no two prompts share their tails
        pad = np.zeros((count, width - own.shape[1]), dtype=np.int64)
        rows.append(np.column_stack([np.full(count, -1 - call.head), own, pad, unique]))
        tokens.append(
            np.column_stack(
                [np.full(count, call.head_tokens), flat.weights[own], pad, np.full(count, call.tail_tokens)]
            )
        )
    if not rows:
        return np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1))
    return np.concatenate(rows), np.concatenate(tokens)


def _partial(encoded: Encoded, inorder: NDArray[np.int64], depth: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the tokens that each prompt shares with the one before in the first part that differs."""
    flat = FlatDictionary.of(Encoded(encoded.codes, encoded.weights, (1,) * len(encoded.weights), encoded.overlaps))
    rows = np.arange(len(inorder))
    at = np.minimum(depth, inorder.shape[1] - 1)
    here, there = inorder[rows, at], inorder[np.maximum(rows - 1, 0), at]
    values = (here > 0) & (there > 0) & (here < len(flat.weights)) & (there < len(flat.weights))
    return flat.partial(np.where(values, here, 0), np.where(values, there, 0))


def _marked(
    inorder: NDArray[np.int64], depth: NDArray[np.int64], reach: NDArray[np.float64], charges: CacheCharges
) -> float:
    """Return what marks change in the bill: a negative number is a saving.

    A start is marked where enough prompts share it. The first of them stores what no shorter marked start has.
    """
    marked = np.zeros(len(inorder))
    change = 0.0
    for column in range(inorder.shape[1] - 1):
        first = depth <= column
        group = np.cumsum(first) - 1
        size = np.bincount(group)[group]
        wanted = (size >= charges.pays_from) & (reach[:, column] >= charges.floor) & (reach[:, column] > marked)
        longer = np.where(wanted, reach[:, column] - marked, 0.0)
        change += charges.bringers * (charges.write - charges.read) * float(longer[first].sum()) - (
            1.0 - charges.read
        ) * float(longer.sum())
        marked += longer
    return change
