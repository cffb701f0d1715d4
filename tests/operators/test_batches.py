"""Units of work: distinct argument tuples of sorted rows, whatever NULLs and slices the batches have."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flightllm.operators.batches import Unit, growing_sizes, units

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
    """Each row is in one unit, its run's tuple is its own values, and neighbouring runs differ."""
    rows = ordered(rows)
    whole = batch([("z", "z")] * skipped + rows).slice(skipped)
    parts: Iterator[pa.RecordBatch] = (whole.slice(start, size) for start in range(0, len(rows), size))
    made = list(units(parts, [0, 1], growing_sizes()))
    assert [n - skipped for u in made for n in u.rows.column(2).to_pylist()] == list(range(len(rows)))
    assert [u.tuples[run] for u in made for run in u.run] == rows
    assert all(a != b for u in made for a, b in zip(u.tuples, u.tuples[1:], strict=False))


def test_growing() -> None:
    """Units begin small and double up to a limit, so that first rows come soon."""
    made = list(units(iter([batch([(str(n), None) for n in range(3000)])]), [0], growing_sizes()))
    assert [len(u.tuples) for u in made][:7] == [16, 32, 64, 128, 256, 512, 512]


def test_no_arguments() -> None:
    """Without argument columns all rows of a batch are one run."""
    (unit,) = units(iter([batch([("a", None), ("b", None)])]), [], growing_sizes())
    assert unit.tuples in ([()], [])
    assert unit.run.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("guard", "needed"),
    [([True, False, False], [True, False]), ([False, None, True], [False, True]), ([None, None, None], [False, False])],
)
def test_needed(guard: list[bool | None], needed: list[bool]) -> None:
    """A run is needed where the guard is true for any of its rows; NULL is not true."""
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "a", "b"]), pa.array(guard, pa.bool_())], names=["a", "g"])
    (unit,) = units(iter([rows]), [0], growing_sizes())
    assert unit.needed(unit.true(1)).tolist() == needed
    assert unit.needed(None).tolist() == [True, True]


def test_finish() -> None:
    """Answers go back onto the rows by their runs, in the type asked for."""
    (unit,) = units(iter([batch([("a", None), ("a", None), ("b", None)])]), [0], growing_sizes())
    assert isinstance(unit, Unit)
    unit.answers = {0: [1.5, None], 1: [["x"], []]}
    schema = pa.schema([*unit.rows.schema, ("s", pa.float64()), ("l", pa.list_(pa.string()))])
    finished = unit.finish(range(2), schema)
    assert finished.schema == schema
    assert finished.column(3).to_pylist() == [1.5, 1.5, None]
    assert finished.column(4).to_pylist() == [["x"], ["x"], []]
    unit.keep(np.array([True, False, True]))
    assert unit.finish(range(2), schema).column(3).to_pylist() == [1.5, None]
    assert unit.needed(None).tolist() == [True, True]
    unit.keep(np.array([True, True, False]))
    assert unit.needed(None).tolist() == [True, False]
