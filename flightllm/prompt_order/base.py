"""The input and the output of an ordering."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["none", "fixed", "greedy", "auto"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """`n` distinct tuples of `k` columns as numbers.

    `overlaps`, if given, are for values with a common start, and the dictionaries are then sorted. Entry `i` of a
    column is the number of tokens that value `i` shares with value `i - 1`, including the field name.
    """

    codes: NDArray[np.int32]
    """n × k positions in the columns' dictionaries; -1 is NULL, which leaves the field out of the prompt."""
    weights: tuple[NDArray[np.float64], ...]
    """Per column: tokens of each dictionary value as sent, with the field name and separators."""
    readers: tuple[int, ...]
    """Per column: the number of calls that read it, which multiplies its weights."""
    overlaps: tuple[NDArray[np.float64], ...] = ()
    lists: tuple[tuple[int, ...], ...] = ()
    """Columns with the elements of a list, whose order does not matter; the columns of one list share a dictionary."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The engine's prefix cache: `blocks` of `block_tokens` tokens (None: unlimited), and the common prefix."""

    block_tokens: int = 16
    blocks: int | None = None
    shared_tokens: float = 0.0
    """Tokens of the instruction, which is sent before the fields."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """The order in which tuples are sent, and the order of the fields in each tuple."""

    rows: NDArray[np.int64]
    """Tuple numbers in sending order, a permutation."""
    patterns: tuple[tuple[int, ...], ...]
    """The field orders in use: the positions of all k columns, in prompt order."""
    pattern: NDArray[np.int32]
    """For each position in `rows`, the index of its field order in `patterns`."""
    method: str
    """'none', 'fixed' or 'greedy'; for 'auto', the method that it chose."""
    hit_tokens: float
    """Predicted tokens that the cache serves beyond the instruction's own whole blocks.

    These are tokens of fields, and the rest of the instruction in a block that fields fill up.
    """
    total_tokens: float
    """Tokens of all fields."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An ordering before its field orders are numbered and its hits are predicted."""

    rows: NDArray[np.int64]
    """Tuple numbers in sending order."""
    fields: NDArray[np.int16]
    """n × k, by position in `rows`: the columns' positions in prompt order."""
    method: str
    tokens: tuple[float, float] | None = None
    """Hit tokens and all tokens, once predicted."""
