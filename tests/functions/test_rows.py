"""The values of columns row by row."""

import pyarrow as pa

from flightllm.functions.rows import TEXTS, each_row


def test_rows_with_null() -> None:
    """A row with NULL in any column has NULL. Without a type, the values are texts."""
    numbers = pa.array([1, None, 3], pa.int64())
    found = each_row(lambda one, other: one * other, numbers, pa.array([2, 2, None], pa.int64()), kind=pa.int64())
    assert found.equals(pa.array([2, None, None], pa.int64()))
    assert each_row(str, numbers).equals(pa.array(["1", None, "3"]))
    assert each_row(list, pa.array(["ab", None]), kind=TEXTS).to_pylist() == [["a", "b"], None]
    assert each_row(str, numbers[:0]).equals(pa.array([], pa.string()))
