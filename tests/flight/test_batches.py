"""Batches fit the wire."""

import pyarrow as pa
import pytest

from flightllm.errors import InternalError
from flightllm.flight.batches import conformed, joined, sliced


def test_even_rows_are_cut_below_the_limit() -> None:
    """No piece is larger than the limit, and together they are the batch."""
    batch = pa.record_batch({"a": range(10_000)})
    pieces = list(sliced(batch, 8_000))
    assert max(piece.nbytes for piece in pieces) <= 8_000
    assert pa.Table.from_batches(pieces).to_batches()[0].num_rows <= 10_000
    assert pa.Table.from_batches(pieces)["a"].to_pylist() == list(range(10_000))


def test_uneven_rows_are_cut_below_the_limit() -> None:
    """Long rows beside short ones are halved until they fit."""
    texts = ["x" * 10] * 500 + ["y" * 900] * 20 + ["z"] * 500
    pieces = list(sliced(pa.record_batch({"a": texts}), 2_000))
    assert max(piece.nbytes for piece in pieces) <= 2_000
    assert pa.Table.from_batches(pieces)["a"].to_pylist() == texts


def test_a_row_over_the_limit_goes_alone() -> None:
    """One row cannot be cut."""
    pieces = list(sliced(pa.record_batch({"a": ["x" * 5_000, "y"]}), 1_000))
    assert [piece.num_rows for piece in pieces] == [1, 1]


def test_empty_batches_are_not_sent() -> None:
    """A batch without rows gives no piece."""
    assert list(sliced(pa.record_batch({"a": pa.array([], pa.int64())}), 1_000)) == []


def test_conformed_takes_the_promised_nullability() -> None:
    """Nullability of a batch may differ from what planning said; the client sees the promise."""
    promised = pa.schema([pa.field("b", pa.int64(), nullable=False)])
    assert conformed(pa.record_batch({"a": [1]}), promised).schema == promised


def test_conformed_refuses_other_types() -> None:
    """Sending other types than promised would break the client in a worse place."""
    with pytest.raises(InternalError, match="promised"):
        conformed(pa.record_batch({"a": [1]}), pa.schema([("a", pa.string())]))


def test_small_batches_are_joined_into_one() -> None:
    """Few bytes go as one batch, many small batches beyond the limit stay apart, and so do large ones."""
    small = [pa.record_batch({"a": range(10)})] * 5
    (one,) = joined(small, 1_000).to_batches()
    assert one["a"].to_pylist() == list(range(10)) * 5
    assert len(joined(small, 100).to_batches()) == 5
    large = [pa.record_batch({"a": range(20_000)})] * 3
    assert len(joined(large, 2 << 20).to_batches()) == 3
