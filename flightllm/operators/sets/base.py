"""The input and the output of a method over sets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flightllm.operators.sets.asker import Asker, Texts


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a value has no answer; `on_error` decides what the row gets."""

    error: str


@dataclass(frozen=True, slots=True)
class SetValues:
    """The distinct values of a set, in an order that does not depend on the order of the rows.

    Example: the rows `red`, `sky` and `red` have the values `("red",)` and `("sky",)` with the weights 2 and 1.
    """

    tuples: Sequence[Texts]
    """The values of the call's fields. A required field is never NULL."""
    weights: NDArray[np.int64]
    """The number of rows that have each value."""


class SetRunner(Protocol):
    """A method of calls over sets."""

    def __call__(self, values: SetValues, asker: Asker) -> Sequence[Any]:
        """Return the answer for each value: a value of the call's type `output`, None or a `Failure`.

        With `OverSet.whole`, the values are one set. Otherwise each value is a set, and no answer depends on another.
        """


class SetStreamer(Protocol):
    """A method that also tells answers that are not final."""

    def __call__(self, values: SetValues, asker: Asker) -> Iterator[Sequence[Any]]:
        """Yield the answers for all values again and again; the last ones are final."""
