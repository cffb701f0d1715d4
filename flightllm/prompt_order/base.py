"""The input and the output of an ordering."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["none", "rows", "fixed", "greedy", "auto"]
REORDERING: Final = frozenset({"fixed", "greedy"})
"""The methods that also order the fields in each prompt. The others keep each call's fields in the written order."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """`n` distinct tuples of `k` columns as numbers.

    `overlaps` say how many tokens the values share at their start. Entry `i` of a column is the number of tokens that
    value `i` shares with value `i - 1`, including the field name. If `overlaps` are given, the dictionaries are sorted.
    """

    codes: NDArray[np.int32]
    """n × k positions in the columns' dictionaries; -1 means NULL, and the prompt then leaves out the field."""
    weights: tuple[NDArray[np.float64], ...]
    """For each column: the number of tokens of each dictionary value, including the field name and separators."""
    readers: tuple[int, ...]
    """For each column: the number of calls that read the column. Its weights are multiplied by this number."""
    overlaps: tuple[NDArray[np.float64], ...] = ()
    lists: tuple[tuple[int, ...], ...] = ()
    """For each list: the columns that hold its elements.

    The order of the elements does not matter. The columns of one list share a dictionary.
    """
    calls: tuple[tuple[int, ...], ...] = ()
    """For each call: its columns in the written order. Without calls, one call reads all columns."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The size of the engine's prefix cache, and the length of the prefix that all prompts share.

    The cache has `blocks` blocks (None: unlimited) of `block_tokens` tokens each.
    """

    block_tokens: int = 16
    blocks: int | None = None
    shared_tokens: float = 0.0
    """Tokens of the instruction, which is sent before the fields."""
    floor_tokens: int = 0
    """The cache serves no prefix with fewer tokens."""
    running: int = 0
    """Prompts that run at once and do not share what they compute; 0 if running prompts share it."""


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
    """'none', 'rows', 'fixed' or 'greedy'; for 'auto', the method that it chose."""
    hit_tokens: float
    """Predicted number of tokens that the cache serves, without the blocks that hold only the instruction.

    Only tokens of fields count, with one exception: if a block holds the instruction's end and the first fields, the
    whole block counts.
    """
    total_tokens: float
    """Tokens of all fields."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An ordering before its field orders are numbered and its hits are predicted."""

    rows: NDArray[np.int64]
    """Tuple numbers in sending order."""
    fields: NDArray[np.int16]
    """n × k: row i lists the columns of the tuple `rows[i]` in prompt order."""
    method: str
    tokens: tuple[float, float] | None = None
    """`hit_tokens` and `total_tokens` of `Ordering`; None before they are predicted."""
