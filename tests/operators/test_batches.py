"""Prompt batches: which tuples are needed, and answers back on their rows."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from flightllm.operators.arrange import growing_sizes, prompt_batches
from flightllm.operators.batches import PromptBatch

Row = tuple[str | None, str | None]


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Make a batch of two text columns and the row's number."""
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(range(len(rows)), pa.int64())], names=["a", "b", "n"])


@pytest.mark.parametrize(
    ("guard", "needed"),
    [([True, False, False], [True, False]), ([False, None, True], [False, True]), ([None, None, None], [False, False])],
)
def test_needed(guard: list[bool | None], needed: list[bool]) -> None:
    """A tuple is needed where the guard is true for any of its rows; NULL is not true."""
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "a", "b"]), pa.array(guard, pa.bool_())], names=["a", "g"])
    (prompt_batch,) = prompt_batches(iter([rows]), [0], growing_sizes())
    assert prompt_batch.needed(prompt_batch.true(1)).tolist() == needed
    assert prompt_batch.needed(None).tolist() == [True, True]


def test_finish() -> None:
    """Answers go back onto the rows of their tuples, in the type asked for."""
    (prompt_batch,) = prompt_batches(iter([batch([("a", None), ("a", None), ("b", None)])]), [0], growing_sizes())
    assert isinstance(prompt_batch, PromptBatch)
    prompt_batch.answers = {0: [1.5, None], 1: [["x"], []]}
    schema = pa.schema([*prompt_batch.rows.schema, ("s", pa.float64()), ("l", pa.list_(pa.string()))])
    finished = prompt_batch.finish(range(2), schema)
    assert finished.schema == schema
    assert finished.column(3).to_pylist() == [1.5, 1.5, None]
    assert finished.column(4).to_pylist() == [["x"], ["x"], []]
    prompt_batch.keep(np.array([True, False, True]))
    assert prompt_batch.finish(range(2), schema).column(3).to_pylist() == [1.5, None]
    assert prompt_batch.needed(None).tolist() == [True, True]
    prompt_batch.keep(np.array([True, True, False]))
    assert prompt_batch.needed(None).tolist() == [True, False]
