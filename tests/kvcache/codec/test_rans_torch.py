"""The decoder for accelerators, run on the CPU: the same numbers from the same words, the same refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flightllm.errors import BitstreamError
from flightllm.kvcache.codec.rans import encode_stream
from flightllm.kvcache.codec.rans_torch import decode_streams
from tests.kvcache.codec.streams import anchors_first, normal_tables


@pytest.mark.slow
@settings(max_examples=25)
@given(
    streams=st.integers(1, 4),
    channels=st.integers(1, 8),
    tokens=st.integers(1, 400),
    spread=st.floats(0.05, 40),
    outliers=st.integers(0, 30),
    seed=st.integers(0, 1000),
)
def test_same_numbers(streams: int, channels: int, tokens: int, spread: float, outliers: int, seed: int) -> None:
    """What the compiled encoder wrote, several streams together, comes back."""
    random = np.random.default_rng(seed)
    numbers = random.normal(0, spread, (streams, channels, tokens)).round().astype(np.int16)
    numbers.flat[random.integers(0, numbers.size, outliers)] = random.integers(-(1 << 15), 1 << 15, outliers)
    tables, order = normal_tables(channels, spread), anchors_first(tokens)
    words = [encode_stream(one, tables, order) for one in numbers]
    found = decode_streams(words, torch.from_numpy(np.stack([tables] * streams)), order, "cpu")
    assert np.array_equal(found.numpy(), numbers)


def test_other_words() -> None:
    """One stream whose words are cut short, too many or exchanged is told among sound ones."""
    numbers = np.random.default_rng(0).normal(0, 3, (8, 100)).round().astype(np.int16)
    tables, order = normal_tables(8, 3), anchors_first(100)
    words = encode_stream(numbers, tables, order)
    both = torch.from_numpy(np.stack([tables, tables]))
    for other in (words[:-1], words[:0], words[1:], np.append(words, words[:1]), words[::-1].copy()):
        with pytest.raises(BitstreamError):
            decode_streams([words, other], both, order, "cpu")
