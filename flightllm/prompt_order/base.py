"""What an ordering is given, and what it returns."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["none", "fixed", "greedy", "auto"]


@dataclass(frozen=True, slots=True)
class Encoded:
    """`n` distinct tuples of `k` columns as numbers.

    `overlaps`, where given, makes use of values that begin alike: entry `i` of a column is how many tokens value `i`
    has in common with value `i - 1`, its field name included; the dictionaries are then sorted.
    """

    codes: NDArray[np.int32]
    """n × k positions in the columns' dictionaries; -1 is NULL: the field is left out of the prompt."""
    weights: tuple[NDArray[np.float64], ...]
    """Per column: tokens of each value of its dictionary as sent, field name and separators included."""
    readers: tuple[int, ...]
    """Per column: how many calls read it, which multiplies its weights."""
    overlaps: tuple[NDArray[np.float64], ...] = ()
    lists: tuple[tuple[int, ...], ...] = ()
    """Columns that hold the elements of a list, whose order means nothing; those of one list share a dictionary."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The engine's prefix cache: `blocks` of `block_tokens` tokens, or unlimited, and what all prompts begin with."""

    block_tokens: int = 16
    blocks: int | None = None
    shared_tokens: float = 0.0
    """Tokens of the instruction, sent before the fields."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """In which order tuples are sent, and the order of the fields of each."""

    rows: NDArray[np.int64]
    """Tuple numbers in sending order, a permutation."""
    patterns: tuple[tuple[int, ...], ...]
    """The field orders in use: all k columns' positions, in prompt order."""
    pattern: NDArray[np.int32]
    """For each place of `rows`, which of `patterns`."""
    method: str
    """'none', 'fixed' or 'greedy': what 'auto' chose."""
    hit_tokens: float
    """Predicted: tokens served by the cache beyond the instruction's own whole blocks: of fields, and of the
    instruction what is left of it in a block that fields fill."""
    total_tokens: float
    """Tokens of all fields."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An ordering before its patterns are named and its hits are predicted."""

    rows: NDArray[np.int64]
    """Tuple numbers in sending order."""
    fields: NDArray[np.int16]
    """n × k, by place in `rows`: columns' positions in prompt order."""
    method: str
    tokens: tuple[float, float] | None = None
    """Tokens hit and in all, where they have been predicted."""
