"""The moments of lists are right for values far from 0, and for many lists at once."""

import math

import pyarrow as pa
import pytest

from flightllm.functions.list_moments import DOUBLES, kurtoses, population_kurtoses, skewnesses

_VALUES = (1.0, 2.0, 3.0, 4.0, 10.0)


@pytest.mark.parametrize("shift", [0.0, 1e5, -1e9, 1e12])
@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_shifted(shift: float, scale: float) -> None:
    """The moments of shifted and scaled values are those of the values."""
    lists = pa.array([[scale * (one + shift) for one in _VALUES]], DOUBLES)
    assert skewnesses(lists).to_pylist() == pytest.approx([1.697056274847714])
    assert kurtoses(lists).to_pylist() == pytest.approx([3.152])
    assert population_kurtoses(lists).to_pylist() == pytest.approx([-0.212])


def test_large() -> None:
    """The powers of the largest doubles do not overflow."""
    lists = pa.array([[one * 1e307 for one in _VALUES], [one * 1e-300 for one in _VALUES]], DOUBLES)
    assert skewnesses(lists).to_pylist() == pytest.approx([1.697056274847714] * 2)


def test_many() -> None:
    """Each list has its own value: NULLs do not count, and a short list or one of equal values has NULL."""
    lists = pa.array([[9.0], [], None, [1.0, None, 2.0, 6.0, 8.0], [0.1] * 5, [1e9 + 0.1] * 7], DOUBLES)[1:]
    assert skewnesses(lists).to_pylist() == [None, None, pytest.approx(0.228727758587297), None, None]
    assert kurtoses(lists).to_pylist() == [None, None, pytest.approx(-3.8690053027212867), None, None]
    assert population_kurtoses(pa.array([[1.0], [1.0, 3.0]], DOUBLES)).to_pylist() == [None, -2.0]


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_not_finite(odd: float) -> None:
    """A value that is not finite gives NaN."""
    found = skewnesses(pa.array([[1.0, 2.0, 4.0, odd], [1.0, 2.0, 4.0]], DOUBLES)).to_pylist()
    assert math.isnan(found[0])
    assert found[1] == pytest.approx(0.9352195295828244)
