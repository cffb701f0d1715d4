"""The groups of an approximate aggregate: the rows of each, as distinct prompts with their numbers of rows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from flightllm.errors import InternalError
from flightllm.functions.approximate import NULL_MARK, ROW_END
from flightllm.operators.sets.asker import Texts
from flightllm.quality.bins import Floats, Ints

_DIGEST: Final = 8


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one group."""

    prompts: Sequence[Texts]
    """The distinct values of rows that need an answer, in an order that the rows do not decide."""
    weights: Ints
    """The number of rows of each prompt."""
    rows: int
    """All rows of the group."""

    @property
    def without(self) -> int:
        """Return the number of rows that need no answer, because a value is NULL."""
        return self.rows - int(self.weights.sum())


def read_group(texts: Texts, required: Collection[int]) -> Group:
    """Read the text of each field, see `values_of_group`; `required` are the fields that a prompt must have."""
    columns = [(text or "").split(ROW_END)[:-1] for text in texts]
    if len({len(column) for column in columns}) > 1:
        raise InternalError("the fields of a group have different numbers of rows")
    counts: dict[Texts, int] = {}
    for values in zip(*columns, strict=True):
        row = tuple(None if value == NULL_MARK else value for value in values)
        if all(row[field] is not None for field in required) and any(value is not None for value in row):
            counts[row] = counts.get(row, 0) + 1
    prompts = sorted(counts, key=_order)
    return Group(prompts, np.array([counts[one] for one in prompts], np.int64), len(columns[0]))


def chances(prompts: Sequence[Texts], salt: str) -> Floats:
    """Return a number in (0, 1) for each prompt, which depends on nothing but the prompt and the salt.

    So a rerun asks about the same rows, and a table with some more rows asks about nearly the same ones.
    """
    key = blake2b(salt.encode(), digest_size=32).digest()
    found = [blake2b(_bytes(one), digest_size=_DIGEST, key=key).digest() for one in prompts]
    numbers = np.frombuffer(b"".join(found), "<u8")
    return (np.asarray(numbers >> np.uint64(11), np.float64) + 0.5) / 2.0**53


def _order(values: Texts) -> bytes:
    return blake2b(_bytes(values), digest_size=16).digest()


def _bytes(values: Texts) -> bytes:
    return ROW_END.join(NULL_MARK if value is None else value for value in values).encode("utf-8", "surrogatepass")
