"""Vectors on their way to a search."""

import numpy as np
import pyarrow as pa

from flightllm.functions.search import vector_bytes


def test_vector_bytes() -> None:
    """Lists become their numbers' bytes, also in a part of a column; no list has none, NULL in a list is no number."""
    lists = pa.array([[9.0], [1.0, 2.0], None, [], [3.0, None, 4.0]], pa.list_(pa.float32()))
    for column in (lists.slice(1), pa.concat_arrays([lists.slice(1)])):
        first, none, empty, last = vector_bytes(column).to_pylist()
        assert (numbers(first), none, numbers(empty)) == ([1.0, 2.0], None, [])
        assert numbers(last)[::2] == [3.0, 4.0]
        assert np.isnan(numbers(last)[1])
    assert vector_bytes(lists.slice(1, 0)).to_pylist() == []


def numbers(vector: bytes) -> list[float]:
    """Return the numbers of a vector."""
    return [float(number) for number in np.frombuffer(vector, "<f4")]
