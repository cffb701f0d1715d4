"""A number of tokens that an engine with a block cache computes in any order of rows, and of each row's fields.

A prompt finds blocks of one earlier prompt only: a block stands for all tokens before it. So a prompt never finds more
than the whole blocks of what it can share with the one prompt that is most like it. To this come values: the first
prompt with a value computes all of it.
"""

import numpy as np
from numpy.typing import NDArray

from flightllm.prompt_order.base import Encoded

_PAIRS = 4_000_000
"""Pairs of prompts that are compared at once."""


def least_tokens(encoded: Encoded, head_tokens: float, block: int) -> int:
    """Return a lower bound of the computed tokens of all distinct rows, each of which is sent once.

    `head_tokens` is the length of the instruction before the fields. A prompt's length is rounded up to whole tokens.
    """
    columns = range(encoded.codes.shape[1])
    weights = np.stack([np.append(encoded.weights[c], 0.0)[encoded.codes[:, c]] for c in columns], axis=1)
    lengths = np.ceil(weights.sum(axis=1) + head_tokens - 1e-9)
    shared = head_tokens + _most_alike(encoded.codes, weights) + _starts(encoded)
    found = np.minimum(np.floor(shared / block + 1e-6), np.floor((lengths - 1) / block)) * block
    own = lengths - found
    more = [_first_values(encoded.codes[:, c], encoded.weights[c], own) for c in columns]
    return int(own.sum() + max(more, default=0.0))


def _most_alike(codes: NDArray[np.int32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return for each row the most tokens of whole values that it has in common with another row."""
    rows, columns = codes.shape
    most = np.zeros(rows)
    step = max(1, _PAIRS // max(rows, 1))
    small = weights.astype(np.float32)
    for start in range(0, rows, step):
        end = min(rows, start + step)
        common = np.zeros((end - start, rows), dtype=np.float32)
        for column in range(columns):
            equal = codes[start:end, column, None] == codes[None, :, column]
            common += equal * small[start:end, column, None]
        common[np.arange(end - start), np.arange(start, end)] = 0.0
        most[start:end] = common.max(axis=1)
    return most


def _starts(encoded: Encoded) -> NDArray[np.float64]:
    """Return for each row the most tokens that one of its values shares with another value of the field."""
    most = np.zeros(len(encoded.codes))
    for column, overlaps in enumerate(encoded.overlaps):
        codes = encoded.codes[:, column]
        either = np.maximum(overlaps, np.append(overlaps[1:], 0.0))
        most = np.maximum(most, np.append(either, 0.0)[codes])
    return most


def _first_values(codes: NDArray[np.int32], weights: NDArray[np.float64], own: NDArray[np.float64]) -> float:
    """Return what the first prompts with the values of a field compute beyond `own`, whichever prompts come first."""
    there = codes >= 0
    most = np.full(len(weights), np.inf)
    if there.any():
        most = np.zeros(len(weights))
        np.maximum.at(most, codes[there], own[there])
    return float(np.maximum(weights - most, 0.0).sum())
