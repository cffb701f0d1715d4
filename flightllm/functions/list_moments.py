"""The skewness and the kurtosis of lists of doubles, from the distances of the values to their mean.

Sums of raw powers would lose all digits where the mean is far from 0 and the values are close to each other.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flightllm.functions.own import OwnFunction

SKEWNESS, KURTOSIS, KURTOSIS_POP = "__skewness", "__kurtosis", "__kurtosis_pop"
"""The names of the functions in SQL."""
DOUBLES: Final = pa.list_(pa.float64())
_Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Moments:
    """The central moments of many lists."""

    count: _Doubles
    second: _Doubles
    third: _Doubles
    fourth: _Doubles
    """Sums of powers, of one scale in each list: a ratio without a unit needs no other."""


def skewnesses(values: pa.Array) -> pa.Array:
    """Return the skewness of a sample for each list; NULLs do not count.

    It is NULL for less than 3 values and for equal values, and NaN if a value is not finite.
    """
    found = _moments(values)
    n = found.count
    with np.errstate(all="ignore"):
        ratio = np.sqrt(n) * found.third / found.second**1.5
        return _numbers(np.sqrt(n * (n - 1)) / (n - 2) * ratio, (n > 2) & (found.second != 0))


def kurtoses(values: pa.Array) -> pa.Array:
    """Return the excess kurtosis of a sample for each list; NULLs do not count.

    It is NULL for less than 4 values and for equal values, and NaN if a value is not finite.
    """
    found = _moments(values)
    n = found.count
    with np.errstate(all="ignore"):
        scaled = (n - 1) * ((n + 1) * _ratio(found) - 3 * (n - 1)) / ((n - 2) * (n - 3))
        return _numbers(scaled, (n > 3) & (found.second != 0))


def population_kurtoses(values: pa.Array) -> pa.Array:
    """Return the excess kurtosis of a population for each list; NULLs do not count.

    It is NULL for less than 2 values and for equal values, and NaN if a value is not finite.
    """
    found = _moments(values)
    with np.errstate(all="ignore"):
        return _numbers(_ratio(found) - 3, (found.count > 1) & (found.second != 0))


def _ratio(found: _Moments) -> _Doubles:
    return found.count * found.fourth / found.second**2


def _moments(values: pa.Array) -> _Moments:
    """Return the moments of lists. For [[1, 3], [5]], the places of the values are 0, 0 and 1."""
    size = len(values)
    numbers = values.flatten()
    places = np.repeat(np.arange(size), values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    known = numbers.is_valid().to_numpy(zero_copy_only=False)
    places = places[known]
    away = numbers.drop_null().to_numpy()
    count = np.bincount(places, minlength=size).astype(np.float64)
    with np.errstate(all="ignore"):
        # The halves of two large values have a sum that a double can hold.
        away = away / 2
        # Equal values get the distance 0, which a rounded mean would not give them.
        away = away - away[np.searchsorted(places, places)]
        for _ in range(2):  # the first mean has an error of its last digits, which the second one takes away
            away = away - (np.bincount(places, away / count[places], size))[places]
        largest = np.zeros(size)
        np.maximum.at(largest, places, np.abs(away))
        scaled = np.where(largest[places] == 0, 0, away / largest[places])
        return _Moments(count, *(np.bincount(places, scaled**power, size).astype(np.float64) for power in (2, 3, 4)))


def _numbers(values: _Doubles, known: NDArray[Any]) -> pa.Array:
    return pa.array(values, pa.float64(), mask=~known)


FUNCTIONS: Final = (
    OwnFunction(skewnesses, (DOUBLES,), pa.float64(), SKEWNESS),
    OwnFunction(kurtoses, (DOUBLES,), pa.float64(), KURTOSIS),
    OwnFunction(population_kurtoses, (DOUBLES,), pa.float64(), KURTOSIS_POP),
)
