"""The entropy coder: what goes in comes out, near the entropy; other words are told, and never read beyond."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.rans import ESCAPE, LARGEST, Order, decode_stream, encode_stream, lanes_of
from tests.kvcache.codec.streams import anchors_first, normal_tables


@settings(max_examples=100)
@given(
    channels=st.integers(1, 40),
    tokens=st.integers(1, 300),
    spread=st.floats(0.05, 40),
    outliers=st.integers(0, 30),
    seed=st.integers(0, 1000),
)
def test_round_trip(channels: int, tokens: int, spread: float, outliers: int, seed: int) -> None:
    """Any numbers of 16 bits come back, probable or not."""
    random = np.random.default_rng(seed)
    numbers = random.normal(0, spread, (channels, tokens)).round().astype(np.int16)
    numbers.flat[random.integers(0, numbers.size, outliers)] = random.integers(-(1 << 15), 1 << 15, outliers)
    tables, order = normal_tables(channels, spread), anchors_first(tokens)
    words = encode_stream(numbers, tables, order)
    found = np.empty_like(numbers)
    decode_stream(words, tables, order, found)
    assert np.array_equal(found, numbers)


@pytest.mark.parametrize("spread", [0.2, 1.0, 5.0])
def test_near_entropy(spread: float) -> None:
    """A stream is at most 1 % and its lanes' states longer than the numbers' entropy under the tables."""
    random = np.random.default_rng(0)
    numbers = random.normal(0, spread, (32, 1_500)).round().astype(np.int16)
    tables, order = normal_tables(32, spread), Order(np.arange(1_500), 0)
    shares = tables[1, 0] / tables[1, 0].sum()
    symbols = np.where(tables[1, 0, numbers + LARGEST] > 0, numbers + LARGEST, ESCAPE)
    bits = -np.log2(shares[symbols]).sum() + 16 * int((symbols == ESCAPE).sum())
    found = 16 * len(encode_stream(numbers, tables, order))
    assert bits < found < 1.01 * bits + 32 * lanes_of(numbers.size)


def test_certain_numbers() -> None:
    """Numbers that are all but certain take hardly any room."""
    numbers = np.zeros((32, 1_500), np.int16)
    words = encode_stream(numbers, normal_tables(32, 0.01), Order(np.arange(1_500), 0))
    assert 16 * len(words) / numbers.size < 0.1


def test_other_words() -> None:
    """Words cut short, too many or exchanged, or read with other tables, do not end where the numbers do."""
    random = np.random.default_rng(0)
    numbers = random.normal(0, 3, (8, 100)).round().astype(np.int16)
    tables, order = normal_tables(8, 3), anchors_first(100)
    words = encode_stream(numbers, tables, order)
    found = np.empty_like(numbers)
    swapped = words.copy()
    swapped[[10, 11]] = words[[11, 10]]
    for other in (words[:-1], words[:0], words[1:], np.append(words, words[:1]), swapped, words[::-1].copy()):
        with pytest.raises(BitstreamError):
            decode_stream(other, tables, order, found)
    with pytest.raises(BitstreamError):
        decode_stream(words, normal_tables(8, 4), order, found)


@pytest.mark.parametrize(("numbers", "lanes"), [(1, 1), (1_023, 1), (1_024, 2), (48_000, 32), (10**7, 32)])
def test_lanes(numbers: int, lanes: int) -> None:
    """Lanes double as streams grow, to 32."""
    assert lanes_of(numbers) == lanes
    assert math.log2(lanes).is_integer()
