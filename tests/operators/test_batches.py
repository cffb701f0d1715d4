"""Prompt batches: distinct argument tuples of sorted rows, with NULLs and slices."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.operators.batches import PromptBatch, growing_sizes, prompt_batches

Row = tuple[str | None, str | None]
ROWS = st.lists(st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, "x", "y"])), max_size=120)


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Make a batch of two text columns and the row's number."""
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(2)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(range(len(rows)), pa.int64())], names=["a", "b", "n"])


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Sort rows, NULL first."""
    return sorted(rows, key=lambda row: [(value is not None, value or "") for value in row])


@given(ROWS, st.integers(1, 40), st.integers(0, 5))
def test_units(rows: list[Row], size: int, skipped: int) -> None:
    """Each row is in one batch, its tuple has its own values, and neighbouring tuples differ."""
    rows = ordered(rows)
    whole = batch([("z", "z")] * skipped + rows).slice(skipped)
    parts: Iterator[pa.RecordBatch] = (whole.slice(start, size) for start in range(0, len(rows), size))
    made = list(prompt_batches(parts, [0, 1], growing_sizes()))
    assert [n - skipped for u in made for n in u.rows.column(2).to_pylist()] == list(range(len(rows)))
    assert [u.tuples[index] for u in made for index in u.tuple_of_row] == rows
    assert all(a != b for u in made for a, b in zip(u.tuples, u.tuples[1:], strict=False))


def test_growing() -> None:
    """Batches begin small and double up to a limit, so that first rows come soon."""
    made = list(prompt_batches(iter([batch([(str(n), None) for n in range(3000)])]), [0], growing_sizes()))
    assert [len(u.tuples) for u in made][:7] == [16, 32, 64, 128, 256, 512, 512]


def test_no_arguments() -> None:
    """Without argument columns all rows of a batch have one tuple."""
    (prompt_batch,) = prompt_batches(iter([batch([("a", None), ("b", None)])]), [], growing_sizes())
    assert prompt_batch.tuples in ([()], [])
    assert prompt_batch.tuple_of_row.tolist() == [0, 0]


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
