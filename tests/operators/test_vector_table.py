"""Vectors of units, in memory or in a file."""

from pathlib import Path

import numpy as np
import pytest

from flightllm.errors import LimitExceededError
from flightllm.operators import vector_table
from flightllm.operators.runtime import SpoolLimits
from flightllm.operators.vector_table import VectorTable


@pytest.mark.parametrize("bytes_in_memory", [0, 1 << 20])
def test_vectors_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_in_memory: int) -> None:
    """A vector comes back from memory and from a file; a unit without one is NaN."""
    monkeypatch.setattr(vector_table, "_MOST_IN_MEMORY", bytes_in_memory)
    monkeypatch.setattr(vector_table, "_ROWS_AT_ONCE", 7)
    table = VectorTable(100, tmp_path, SpoolLimits(0, 10_000))
    assert np.isnan(table.read(np.arange(3))).all()
    written = np.random.default_rng(0).standard_normal((100, 16)).astype(np.float32)
    for unit in range(1, 100):
        table.write(unit, written[unit])
        if unit == 50:
            table.release()
    found = table.read(np.array([7, 99, 7, 0]))
    assert np.allclose(found[:3], written[[7, 99, 7]], atol=2e-3)
    assert np.isnan(found[3]).all()
    assert len(list(tmp_path.iterdir())) == (bytes_in_memory == 0)


def test_room_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table without enough room on disk is an error."""
    monkeypatch.setattr(vector_table, "_MOST_IN_MEMORY", 0)
    with pytest.raises(LimitExceededError, match="spill_bytes"):
        VectorTable(100, tmp_path, SpoolLimits(0, 100)).write(0, np.ones(16, np.float32))
